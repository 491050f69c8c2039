// Schedules side by side: passes by keys, the table, the causes, all schedules, and a wrong value.

import assert from "node:assert/strict";

import { Opened, onPage } from "./browser.js";

const SCENARIO = `# A question with a comment.
title = "Four stages"
schedule = ["1f1b", "zb-h1"]
stages = 4
microbatches = 8
forward = "1ms"
backward-input = "1ms"
backward-weight = "1ms"
hop = "100us"
activation = "1GiB"
memory-limit = "5GiB"
`;
const LINK = { view: "play", scenario: SCENARIO };

/** Writes `text` into the field of a key, as if it were typed. @param {Opened} opened @param {string} key @param {string} text */
async function type(opened, key, text) {
  await opened.page.$eval(`[data-key="${key}"] input[type=text]`, (field, text) => {
    /** @type {HTMLInputElement} */ (field).value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }, text);
  await opened.rest();
}

/** The texts of the elements that `selector` finds. @param {Opened} opened @param {string} selector */
const texts = (opened, selector) => opened.page.$$eval(selector, (all) => all.map((one) => one.textContent));

onPage("keys go from pass to pass, and to what each waited for", { link: LINK }, async (opened) => {
  const { page } = opened;
  await page.focus(".charts canvas");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  const [said] = await texts(opened, ".gantts [aria-live]");
  assert.match(String(said), /^F1\.0 on stage 1\. .*a value from stage 0, 100\.000 us on its way/);
  await page.keyboard.press("Enter");
  assert.match(String((await texts(opened, ".gantts [aria-live]"))[0]), /^F0\.0 on stage 0\. /);
});

onPage("the table is sorted by a column, and says why a schedule waits", { link: LINK }, async (opened) => {
  const names = () => texts(opened, ".results tbody .name");
  assert.deepEqual(await names(), ["1f1b", "zb-h1"]);
  await opened.press("bubble");
  assert.deepEqual(await names(), ["zb-h1", "1f1b"]);
  await opened.press("Why does zb-h1 wait?");
  await opened.rest();
  const asked = (await opened.questions("simulate")).at(-1);
  assert.equal(asked?.request.explain, true);
  const why = await opened.page.$eval("section[aria-label='Why stages wait']", (one) => one.textContent);
  assert.match(String(why), /Why zb-h1 waits.*critical path.*lever/s);
});

onPage("a schedule that is clicked beside all others is drawn", { link: LINK }, async (opened) => {
  const { page } = opened;
  await page.$$eval("summary", (all) => all.find((one) => one.textContent?.startsWith("All schedules"))?.click());
  await opened.until("simulate", (one) => one.request.front && Boolean(one.answer));
  await opened.rest();
  await page.$eval("[aria-label^='zb-v: bubble']", (one) => /** @type {SVGElement} */ (one).focus());
  await page.keyboard.press("Enter");
  await opened.rest();
  assert.deepEqual(await texts(opened, ".results tbody .name"), ["1f1b", "zb-h1", "zb-v"]);
});

onPage("a wrong value is blamed beside its field, and a right one mends it", { link: LINK }, async (opened) => {
  const { page } = opened;
  const fault = () => page.$eval("[data-key=forward]", (one) => [one.querySelector(".fault")?.textContent,
    one.querySelector("input")?.getAttribute("aria-invalid")]);
  await type(opened, "forward", "1mz");
  const [words, invalid] = await fault();
  assert.match(String(words), /unknown unit/);
  assert.equal(invalid, "true");
  assert.match(String(await page.$eval("[role=alert]", (one) => one.textContent)), /forward = "1mz"/);
  // The last answer stays.
  assert.equal((await texts(opened, ".results tbody .name")).length, 2);
  await type(opened, "forward", "2ms");
  assert.deepEqual(await fault(), ["", null]);
  assert.equal(await page.$eval("[role=alert]", (one) => one.checkVisibility()), false);
  const { text } = await opened.answer("simulate");
  assert.match(text, /^# A question with a comment\.\ntitle = "Four stages, changed"\n.*^forward = "2ms"$/ms);
});

onPage("a link keeps which part of the timelines is shown", { link: LINK }, async (opened) => {
  const { page } = opened;
  await opened.press("Zoom in");
  await page.waitForFunction(() => location.hash.includes("from="));
  const link = await page.evaluate(() => location.hash);
  const range = await texts(opened, ".range");
  const second = await Opened.open({ link: Object.fromEntries(new URLSearchParams(link.slice(1))) });
  try {
    await second.page.waitForFunction((text) => document.querySelector(".range")?.textContent === text, {}, range[0]);
    second.quiet();
  } finally {
    await second.close();
  }
});

onPage("in a frame there are sliders and timelines alone, and a way to all of the page",
  { link: { ...LINK, embed: "1" }, width: 720, height: 500 }, async (opened) => {
    const shown = await opened.page.$$eval("header, footer, .box, table, textarea", (all) =>
      all.filter((one) => one.checkVisibility()).map((one) => one.outerHTML.slice(0, 80)));
    assert.deepEqual(shown, []);
    assert.ok((await opened.page.$$(".charts canvas")).length === 2);
    await (await opened.named("slider", "Stages (p), slider").waitHandle()).focus();
    await opened.page.keyboard.press("ArrowRight");
    await opened.rest();
    const { text, results } = await opened.answer("simulate");
    assert.equal(results[0].stages, 5);
    const whole = await opened.named("link", "Open in a page of its own").waitHandle();
    const parts = new URLSearchParams(await whole.evaluate((one) => /** @type {HTMLAnchorElement} */ (one).hash.slice(1)));
    assert.deepEqual([parts.get("scenario"), parts.get("embed")], [text, null]);
  });
