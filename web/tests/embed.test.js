// Inside a page of the book: the sliders and the picture, and the way to all of it.

import assert from "node:assert/strict";

import { onPage } from "./browser.js";

const SCENARIO = 'schedule = ["1f1b", "zb-h1"]\nstages = 4\nmicrobatches = 8\nforward = "1ms"\nbackward-input = "1ms"\nbackward-weight = "1ms"\n';

onPage("a frame has sliders, and a link to the page with its question",
  { from: "server", link: { embed: "1", view: "play", scenario: SCENARIO }, width: 700, height: 500 }, async (opened) => {
    const { page } = opened;
    await (await opened.named("slider", "stages, slider").waitHandle()).focus();
    await page.keyboard.press("ArrowRight");
    await opened.rest();
    const { results, text } = await opened.answer("simulate");
    assert.equal(results[0].stages, 5);
    assert.deepEqual(await page.$$eval("[role=tab]", (all) => all.filter((one) => one.checkVisibility()).length), 0);
    const whole = await opened.named("link", "Open in a page of its own").waitHandle();
    await whole.focus();
    const parts = new URLSearchParams(await whole.evaluate((one) => /** @type {HTMLAnchorElement} */ (one).hash.slice(1)));
    assert.deepEqual({ embed: parts.get("embed"), scenario: parts.get("scenario") }, { embed: null, scenario: text });
  });
