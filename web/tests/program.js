// The command line, whose answers the page's are held against.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { fileURLToPath } from "node:url";

/** The program: the one that DEBUBBLE names, else that of the tests. */
export const PROGRAM = process.env.DEBUBBLE ?? fileURLToPath(new URL("../../target/debug/debubble", import.meta.url));

/** A folder for files that the program reads and writes. */
export const FOLDER = mkdtempSync(join(tmpdir(), "debubble-page-"));
after(() => rmSync(FOLDER, { recursive: true }));

/** The path of a new file of this name and content. @param {string} name @param {string | Uint8Array} content */
export function file(name, content) {
  const path = join(FOLDER, name);
  writeFileSync(path, content);
  return path;
}

/** What the program prints, and its exit code. @param {...string} words */
export function ran(...words) {
  const { status, stdout, stderr, error } = spawnSync(PROGRAM, words,
    { encoding: "utf8", maxBuffer: 2 ** 30, cwd: FOLDER, env: { ...process.env, NO_COLOR: "1" } });
  assert.ok(!error, `${PROGRAM} does not run: ${error?.message}`);
  return { status, stdout, stderr };
}

/** The JSON that the program prints. @param {...string} words */
export function json(...words) {
  const { status, stdout, stderr } = ran(...words);
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

/**
 * All that the command line answers is in the page's answer, which says more.
 * @param {any} answer @param {any} expected @param {string} what
 */
export function agrees(answer, expected, what) {
  for (const [name, value] of Object.entries(expected)) {
    assert.deepEqual(answer[name], value, `${name} of ${what}`);
  }
}
