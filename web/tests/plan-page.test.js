// The page that the command line writes of a plan: the answer first, nothing cut off, everything in print.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import { prepare, violations, widths } from "./axe.js";
import { browser } from "./browser.js";
import { FOLDER, file, ran } from "./program.js";

const QUESTION = `title = "Small"
tokens = 20e9
batch = 256
sequence = 2048

[model]
layers = 32
hidden = 4096
heads = 32
vocabulary = 32000

[[cluster]]
machine = "h100"
devices = [16, 32]
`;

const HEADINGS = ["Plans", "Pictures", "Left out and not tried", "Assumptions", "Files of the plan to take"];

test("the page of a plan has the answer first, fits a phone and a wide screen, and is printed as a whole", async () => {
  const path = join(FOLDER, "plan.html");
  const { status, stderr } = ran("plan", file("small.toml", QUESTION), "--html", path);
  assert.equal(status, 0, stderr);
  const page = await (await browser()).newPage();
  /** @type {string[]} */
  const complaints = [];
  page.on("console", (message) => complaints.push(message.text()));
  try {
    await page.goto(pathToFileURL(path).href);
    assert.deepEqual(await page.$$eval("h2", (all) => all.map((one) => one.textContent)), HEADINGS);
    const tops = await page.$$eval("h1, .answer, h2", (all) => all.map((one) => one.getBoundingClientRect().top));
    assert.deepEqual(tops, tops.toSorted((a, b) => a - b));
    assert.match(await page.$eval(".answer .lead", (one) => one.textContent ?? ""), /^The plan to take: plan \d+, /);
    assert.equal((await page.$$("tr.taken")).length, 1);
    await prepare(page);
    for (const [width, scheme] of [[1400, "light"], [1400, "dark"], [360, "light"]]) {
      await page.setViewport({ width: Number(width), height: 900 });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: String(scheme) }]);
      assert.deepEqual(await violations(page), [], `${width} px in ${scheme}`);
      const [wide, room] = await widths(page);
      assert.ok(wide <= room, `${wide} of ${room} px`);
    }
    // Side by side where there is room.
    const rows = () => page.$$eval(".grid > figure", (all) => new Set(all.map((one) => Math.round(one.getBoundingClientRect().top))).size);
    const count = (await page.$$(".grid > figure")).length;
    assert.equal(await rows(), count);
    await page.setViewport({ width: 1400, height: 900 });
    assert.ok(await rows() < count);
    // Scripts are folded on a screen, and printed.
    const shown = () => page.$$eval("details pre", (all) => all.map((one) => one.checkVisibility({ contentVisibilityAuto: true }) && one.getBoundingClientRect().height > 20));
    const folded = await shown();
    assert.ok(folded.length >= 2 && folded.every((one) => !one), folded.join());
    await page.emulateMediaType("print");
    assert.ok((await shown()).every(Boolean));
    // On a sheet of A4, which lies.
    await page.setViewport({ width: 1046, height: 718 });
    const [wide, room] = await widths(page);
    assert.ok(wide <= room, `${wide} of ${room} px are printed`);
    assert.deepEqual(complaints, []);
  } finally {
    await page.close();
  }
});
