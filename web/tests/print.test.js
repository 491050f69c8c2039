// What is printed or taken as one picture is complete, of the page and of the pages that the command line writes.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import { browser, onPage } from "./browser.js";
import { FOLDER, file, ran } from "./program.js";

const SCENARIO = `schedule = ["1f1b", "zb-h1", "zb-h2", "zb-v"]
stages = 8
microbatches = 16
forward = "10ms"
backward-input = "10ms"
backward-weight = "10ms"
activation = "1GiB"
memory-limit = "9GiB"
`;

/** How many colours each timeline has: a blank one has one. @param {import("puppeteer-core").Page} page @param {string} selector */
const colours = (page, selector) => page.$$eval(selector, (all) => all.map((canvas) => {
  const one = /** @type {HTMLCanvasElement} */ (canvas);
  const pixels = one.width && one.height ? one.getContext("2d")?.getImageData(0, 0, one.width, one.height).data ?? [] : [];
  const found = new Set();
  for (let at = 0; at < pixels.length; at += 4) found.add(pixels.slice(at, at + 3).join());
  return found.size;
}));

/** @param {number[]} drawn @param {number} count */
const complete = (drawn, count) => assert.ok(drawn.length === count && drawn.every((one) => one > 10), drawn.join());

onPage("all timelines are printed", { link: { view: "play", scenario: SCENARIO }, height: 500 }, async (opened) => {
  await opened.page.pdf({ format: "A4" });
  complete(await colours(opened.page, ".charts canvas"), 4);
  await opened.page.emulateMediaType("print");
  const exact = await opened.page.$$eval(".key, .peak", (all) => all.map((one) => getComputedStyle(one).printColorAdjust));
  assert.ok(exact.length > 4 && exact.every((one) => one === "exact"), exact.join());
  const shown = await opened.page.$$eval("table.figures, .headline, h1", (all) => all.map((one) => one.checkVisibility()));
  assert.ok(shown.filter(Boolean).length >= 3);
});

onPage("a picture of the whole page has all timelines", { link: { view: "play", scenario: SCENARIO }, height: 500 }, async (opened) => {
  await opened.page.waitForFunction(() => [...document.querySelectorAll(".charts canvas")].every((one) => /** @type {HTMLCanvasElement} */ (one).width !== 300));
  complete(await colours(opened.page, ".charts canvas"), 4);
});

test("the page that the command line writes is printed as a whole", async () => {
  const path = join(FOLDER, "printed.html");
  const { status, stderr } = ran("simulate", file("printed.toml", SCENARIO), "--gantt", "never", "--html", path);
  assert.equal(status, 0, stderr);
  const page = await (await browser()).newPage();
  try {
    await page.setViewport({ width: 1000, height: 400 });
    await page.goto(pathToFileURL(path).href);
    // Those off the screen, too.
    await page.waitForFunction(() => [...document.querySelectorAll("#charts > canvas")].every((one) => /** @type {HTMLCanvasElement} */ (one).width !== 300));
    await page.pdf({ format: "A4" });
    // Of each schedule, its timeline and its memory.
    complete(await colours(page, "#charts > canvas"), 8);
    await page.emulateMediaType("print");
    assert.equal(await page.$eval(".key", (one) => getComputedStyle(one).printColorAdjust), "exact");
  } finally {
    await page.close();
  }
});
