// The page of timelines that the command line writes draws in a browser, by itself.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import { browser } from "./browser.js";
import { FOLDER, file, ran } from "./program.js";

const SCENARIO = `schedule = ["1f1b", "zb-h1"]
stages = 4
microbatches = 8
forward = "10ms"
backward-input = "10ms"
backward-weight = "10ms"
activation = "1GiB"
message = "16MiB"
cluster = "a100-roce"
`;

test("timelines that the command line writes are drawn, and told by keys", async () => {
  const path = join(FOLDER, "timelines.html");
  const { status, stderr } = ran("simulate", file("timelines.toml", SCENARIO), "--gantt", "never", "--html", path);
  assert.equal(status, 0, stderr);
  const page = await (await browser()).newPage();
  try {
    /** @type {unknown[]} */
    const complaints = [];
    page.on("console", (message) => complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(error));
    await page.goto(pathToFileURL(path).href);
    await page.waitForFunction(() => document.getElementById("range")?.textContent?.startsWith("0 ns to "));
    // Of each schedule: its timeline, its memory and its transfers.
    assert.equal((await page.$$("#charts > canvas")).length, 6);
    await page.focus("#charts > canvas");
    await page.keyboard.press("End");
    assert.match(String(await page.$eval("#said", (one) => one.textContent)), /^BW0\.7 on stage 0\. .*waited for: /);
    const drawn = await page.$eval("#charts > canvas", (canvas) => {
      const one = /** @type {HTMLCanvasElement} */ (canvas);
      const pixels = one.getContext("2d")?.getImageData(0, 0, one.width, one.height).data ?? [];
      const colours = new Set();
      for (let at = 0; at < pixels.length; at += 4) colours.add(pixels.slice(at, at + 3).join());
      return colours.size;
    });
    assert.ok(drawn > 10, `${drawn} colours`);
    assert.deepEqual(complaints, []);
  } finally {
    await page.close();
  }
});
