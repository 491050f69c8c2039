// Files that are opened on the page: told apart, answered as the command line answers, or refused with a message.

import assert from "node:assert/strict";
import { readdirSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { onPage } from "./browser.js";
import { agrees, file, json, ran } from "./program.js";

const TESTS = fileURLToPath(new URL("../../tests/", import.meta.url));
const LINK = { view: "open" };

onPage("traces are replayed and certificates checked as the command line does", { link: LINK }, async (opened) => {
  for (const name of ["1f1b.json", "torch.json", "megatron.json"]) {
    const path = join(TESTS, "fuzz/trace-json", name);
    await opened.give(path);
    agrees(await opened.answer("replay"), json("replay", path, "--json"), name);
  }
  // Files of several ranks are of one run.
  const ranks = ["ScheduleZBVZeroBubble.0.json", "ScheduleZBVZeroBubble.1.json"].map((name) => join(TESTS, "traces", name));
  await opened.give(...ranks);
  agrees(await opened.answer("replay"), json("replay", ...ranks, "--json"), "two ranks");
  const certificate = join(TESTS, "golden/branching.cert");
  await opened.give(certificate);
  agrees(await opened.answer("verify"), json("verify", certificate, "--json"), "the certificate");
});

onPage("a scenario becomes the question, and an order stands beside the named schedules", { link: LINK }, async (opened) => {
  const question = 'schedule = "1f1b"\nstages = 3\nmicrobatches = 6\nforward = "1ms"\nbackward-input = "2ms"\nbackward-weight = "1ms"\n';
  await opened.give(file("mine.toml", question));
  assert.equal(await opened.chosen(), "Play");
  assert.equal((await opened.questions("simulate")).at(-1)?.request.text, question);
  await opened.choose("What is in my file?");
  await opened.give(file("order.txt", ran("export", "mine.toml", "--schedule", "zb-h1").stdout));
  await opened.press("Beside the named schedules in Play, with these sizes");
  await opened.rest();
  const spans = (/** @type {any} */ answer) => answer.results.map((/** @type {any} */ one) => one.span_ns);
  const expected = json("simulate", "mine.toml", "--schedule", "1f1b,zb-h1", "--json");
  assert.deepEqual(spans(await opened.answer("simulate")), spans(expected));
});

/** Files that nobody means well with, by name. @type {Record<string, string | Uint8Array>} */
const HOSTILE = {
  "empty.toml": "",
  "not-utf8.toml": new Uint8Array([0xff, 0xfe, 0x00, 0x80]),
  "zeros.bin": new Uint8Array(1_000_000),
  "deep.json": "[".repeat(1_000_000),
  "deep-tables.toml": `${"a.".repeat(50_000)}b = 1\n`,
  "not-a-number.json": '{"traceEvents":[{"ph":"X","name":"F","ts":NaN,"dur":1e999,"pid":0,"tid":0}]}',
  "nothing.parquet": "PAR1",
  "endless.parquet": new Uint8Array([...Buffer.from("PAR1"), ...new Uint8Array(100), 0xff, 0xff, 0xff, 0x7f, ...Buffer.from("PAR1")]),
  "numbers.csv": `0F0,${"9".repeat(10_000)}F${"9".repeat(10_000)}\n`,
  "order.txt": "F0.99999999999 B4294967295\n".repeat(1_000),
  "half.json": '{"schema":"debubble',
  "<img src=x onerror=broken.push(1)>.toml": "<script>broken.push(2)</script>",
};

onPage("hostile files are refused with a message, and the page lives", { link: LINK }, async (opened) => {
  await opened.page.evaluate(() => { /** @type {any} */ (window).broken = []; });
  for (const [name, content] of Object.entries(HOSTILE)) {
    await opened.give(file(name, content));
    await refused(opened, name);
  }
  assert.deepEqual(await opened.page.evaluate(() => /** @type {any} */ (window).broken), []);
  assert.equal(await opened.page.$("img"), null);
  // A file of 100 MB is not even read.
  const read = (await opened.questions("kind")).length;
  const path = file("huge.json", "");
  truncateSync(path, 100_000_000);
  await opened.give(path);
  assert.match(await refused(opened, "huge.json"), /MiB/);
  assert.equal((await opened.questions("kind")).length, read);
  await lives(opened);
});

onPage("whatever once broke a reader breaks nothing here", { link: LINK }, async (opened) => {
  const folders = readdirSync(join(TESTS, "fuzz"), { recursive: true, withFileTypes: true });
  const all = folders.filter((entry) => entry.isFile()).map((entry) => join(entry.path, entry.name));
  assert.ok(all.length > 10);
  await opened.give(...all);
  await opened.rest();
  await opened.choose("What is in my file?");
  const text = await opened.text();
  for (const path of all) assert.ok(text.includes(/** @type {string} */ (path.split("/").at(-1))), `nothing is said of ${path}`);
  await lives(opened);
});

/** The message that the page shows of a file that it was given. @param {import("./browser.js").Opened} opened @param {string} name */
async function refused(opened, name) {
  const alerts = await opened.page.$$eval("[role=tabpanel]:not([hidden]) [role=alert]", (all) =>
    all.filter((one) => one.checkVisibility()).map((one) => one.textContent ?? ""));
  assert.ok(alerts.some((text) => text.trim()), `${name} is not refused`);
  assert.ok((await opened.text()).includes(name), `the page does not say that it refuses ${name}`);
  return alerts.join("\n");
}

/** The page still answers. @param {import("./browser.js").Opened} opened */
async function lives(opened) {
  await opened.follow({ view: "play", scenario: 'schedule = "zb-h1"\nstages = 2\nmicrobatches = 4\nforward = "1ms"\nbackward = "2ms"\n' });
  assert.equal((await opened.answer("simulate")).results[0].stages, 2);
}
