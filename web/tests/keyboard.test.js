// Everything that a mouse can do on the page, keys can.

import assert from "node:assert/strict";

import { OTHERS, TABS, VIEWS, onPage } from "./browser.js";

/**
 * Marks all that can be operated and is shown, and says how much that is. Of a group that is one stop, such as tabs
 * or radio buttons, only the chosen one counts.
 */
function mark() {
  document.querySelectorAll("[data-stop]").forEach((element) => element.removeAttribute("data-stop"));
  const all = document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]");
  const shown = [...all].filter((element) => element.checkVisibility({ visibilityProperty: true })
    && /** @type {HTMLElement} */ (element).tabIndex >= 0 && !element.matches(":disabled, [inert] *")
    && !element.matches("input[type=radio]:not(:checked)"));
  shown.forEach((element, at) => element.setAttribute("data-stop", String(at)));
  return shown.length;
}

/** What has the focus: its mark, how it calls itself, and whether one sees that it has the focus. */
function focused() {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const style = getComputedStyle(element);
  const seen = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
  return { stop: element.getAttribute("data-stop"), what: element.outerHTML.slice(0, 120), seen };
}

onPage("keys reach all of each tab, and show where they are", {}, async (opened) => {
  const { page } = opened;
  for (const tab of VIEWS) {
    await opened.choose(tab);
    const count = await page.evaluate(mark);
    assert.ok(count > 0);
    await page.evaluate(() => /** @type {HTMLElement} */ (document.activeElement)?.blur());
    const reached = new Set();
    for (let press = 0; press < 2 * count && reached.size < count; press += 1) {
      await page.keyboard.press("Tab");
      const focus = await page.evaluate(focused);
      if (!focus) continue;
      assert.ok(focus.seen, `nobody sees that this has the focus: ${focus.what}`);
      if (focus.stop !== null) reached.add(Number(focus.stop));
    }
    const missed = await page.evaluate((stops) => [...document.querySelectorAll("[data-stop]")]
      .filter((element) => !stops.includes(Number(element.getAttribute("data-stop"))))
      .map((element) => element.outerHTML.slice(0, 120)), [...reached]);
    assert.deepEqual(missed, [], `the tab ${tab}`);
  }
  // Arrow keys go from tab to tab, and round.
  await opened.choose(TABS[0]);
  await opened.page.focus("[role=tab][aria-selected=true]");
  for (const tab of [...TABS.slice(1), TABS[0]]) {
    await opened.page.keyboard.press("ArrowRight");
    assert.equal(await opened.chosen(), tab);
    assert.equal(await opened.page.evaluate(() => document.activeElement?.textContent), tab);
    const panels = await opened.page.$$eval("[role=tabpanel]", (all) => all.filter((one) => one.checkVisibility()).map((one) => one.getAttribute("aria-labelledby")));
    assert.equal(panels.length, 1);
  }
  await opened.page.keyboard.press("ArrowLeft");
  assert.equal(await opened.chosen(), TABS.at(-1));
});

const SCENARIO = 'schedule = ["1f1b", "zb-h1"]\nstages = 4\nmicrobatches = 8\nforward = "1ms"\nbackward-input = "1ms"\nbackward-weight = "1ms"\n';

onPage("keys move a slider, choose a schedule and ask why stages wait", { link: { view: "play", scenario: SCENARIO } }, async (opened) => {
  const { page } = opened;
  const slider = await opened.named("slider", "Microbatches (m), slider").waitHandle();
  await slider.focus();
  await page.keyboard.press("ArrowRight");
  await opened.rest();
  const results = async () => (await opened.answer("simulate")).results;
  assert.deepEqual((await results()).map((/** @type {any} */ one) => one.microbatches), [9, 9]);

  const box = await opened.named("checkbox", "zb-h2").waitHandle();
  await box.focus();
  await page.keyboard.press("Space");
  await opened.rest();
  assert.deepEqual((await results()).map((/** @type {any} */ one) => one.schedule), ["1f1b", "zb-h1", "zb-h2"]);

  const why = await opened.named("button", "Why does zb-h2 wait?").waitHandle();
  await why.focus();
  await page.keyboard.press("Enter");
  await opened.rest();
  const asked = (await opened.questions("simulate")).filter(({ request }) => request.explain);
  assert.equal(asked.length, 1);
  assert.match(await opened.text(), /Why zb-h2 .*waits/);
});

onPage("the first timeline is a few keys away, and keys move it", { link: { view: "play", scenario: SCENARIO } }, async (opened) => {
  const { page } = opened;
  let presses = 0;
  const at = () => page.evaluate(() => document.activeElement?.matches(".charts canvas"));
  await page.evaluate(() => /** @type {HTMLElement} */ (document.activeElement)?.blur());
  await page.keyboard.press("Tab");
  assert.match(await page.evaluate(() => document.activeElement?.textContent ?? ""), /^Skip to the timelines$/);
  await page.keyboard.press("Enter");
  for (presses = 1; presses <= 12 && !await at(); presses += 1) await page.keyboard.press("Tab");
  assert.ok(presses <= 12, `${presses} presses`);
  const range = () => page.$eval(".range", (one) => one.textContent);
  const whole = await range();
  await page.keyboard.press("w");
  await page.waitForFunction((text) => document.querySelector(".range")?.textContent !== text, {}, whole);
  const near = await range();
  await page.keyboard.press("d");
  await page.waitForFunction((text) => document.querySelector(".range")?.textContent !== text, {}, near);
  await page.keyboard.press("a");
  await page.waitForFunction((text) => document.querySelector(".range")?.textContent === text, {}, near);
  await page.keyboard.press("s");
  await page.waitForFunction((text) => document.querySelector(".range")?.textContent === text, {}, whole);
  // A pass that is chosen is told below its timeline, too.
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  const told = await page.$eval(".selected", (one) => ({ shown: one.checkVisibility(), text: one.textContent, before: one.previousElementSibling?.className }));
  assert.ok(told.shown && told.before === "chart", JSON.stringify(told));
  assert.match(String(told.text), /^F1\.0 on stage 1.*waited for: a value from stage 0/);
  await page.keyboard.press("?");
  assert.ok(await page.$eval("dialog", (one) => /** @type {HTMLDialogElement} */ (one).open && /zoom in and out/.test(one.textContent ?? "")));
  await page.keyboard.press("Escape");
  assert.equal(await page.$eval("dialog", (one) => /** @type {HTMLDialogElement} */ (one).open), false);
});

onPage("the strip above the timelines chooses the part that they show", { link: { view: "play", scenario: SCENARIO } }, async (opened) => {
  const { page } = opened;
  const box = await (await page.waitForSelector(".overview"))?.boundingBox();
  assert.ok(box);
  const y = box.y + box.height / 2, end = (await opened.answer("simulate")).drawing.end;
  await page.mouse.move(box.x + 84 + (box.width - 96) / 2, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width - 12, y, { steps: 4 });
  await page.mouse.up();
  await page.waitForFunction(() => location.hash.includes("from="));
  const parts = await page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
  assert.ok(Math.abs(Number(parts.from) / end - 0.5) < 0.03 && Math.abs(Number(parts.to) / end - 1) < 0.03, JSON.stringify([parts.from, parts.to, end]));
});

onPage("keys open the menu of the other questions, go through it, choose and leave", {}, async (opened) => {
  const { page } = opened, focus = () => page.evaluate(() => document.activeElement?.textContent);
  await page.focus("#others");
  await page.keyboard.press("ArrowDown");
  assert.equal(await focus(), OTHERS[0]);
  await page.keyboard.press("ArrowUp");
  assert.equal(await focus(), OTHERS.at(-1));
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowDown");
  assert.equal(await focus(), OTHERS[1]);
  await page.keyboard.press("Escape");
  assert.equal(await focus(), "Other questions");
  assert.equal(await page.$eval("#menu", (one) => one.checkVisibility()), false);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.equal(await opened.chosen(), OTHERS[0]);
  await opened.rest();
  // Its example is answered, and the window has its name.
  assert.ok((await opened.answer("fsdp")).answer.results.length > 0);
  assert.equal(await page.title(), "Packing for data-parallel training - debubble");
});
