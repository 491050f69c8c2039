// Back and Forward go where somebody was: from tab to tab, and from question to question.

import assert from "node:assert/strict";

import { Opened, onPage } from "./browser.js";
import { file } from "./program.js";

/** The title of the question that is shown. @param {Opened} opened */
const title = (opened) => opened.page.$eval("h2", (one) => one.textContent);

onPage("Back leads from an example to the one before, and Forward to it again", {}, async (opened) => {
  const { page } = opened, { examples } = await opened.examples();
  await page.select("select[aria-label=Examples]", "gpt-28.3b");
  await opened.rest();
  const chosen = examples.find((/** @type {any} */ one) => one.name === "gpt-28.3b").title;
  assert.equal(await title(opened), chosen);
  await page.goBack();
  await opened.rest();
  assert.equal(await title(opened), examples[0].title);
  await page.goForward();
  await opened.rest();
  assert.equal(await title(opened), chosen);
});

onPage("Back leads from tab to tab, and from a file that was opened", {}, async (opened) => {
  const { page } = opened, { examples } = await opened.examples();
  await opened.choose("What is in my file?");
  await opened.give(file("mine.toml", 'title = "Mine"\nschedule = "1f1b"\nstages = 3\nmicrobatches = 6\nforward = "1ms"\nbackward = "2ms"\n'));
  assert.deepEqual([await opened.chosen(), await title(opened)], ["Play", "Mine"]);
  await page.goBack();
  await opened.rest();
  assert.deepEqual([await opened.chosen(), await title(opened)], ["What is in my file?", examples[0].title]);
  await page.goBack();
  await opened.rest();
  assert.equal(await opened.chosen(), "Play");
});

onPage("what is typed is not a step of its own", {}, async (opened) => {
  const { page } = opened, before = await page.evaluate(() => history.length);
  await (await opened.named("slider", "Microbatches (m), slider").waitHandle()).focus();
  for (let press = 0; press < 3; press += 1) await page.keyboard.press("ArrowRight");
  await opened.rest();
  await page.waitForFunction(() => location.hash.includes("microbatches+%3D+11") || location.hash.includes("microbatches%20%3D%2011"));
  assert.equal(await page.evaluate(() => history.length), before);
  // A step from there leads back there.
  await opened.choose("Search");
  await page.goBack();
  await opened.rest();
  assert.equal((await opened.answer("simulate")).results[0].microbatches, 11);
});
