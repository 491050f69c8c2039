// What people come for takes few actions: a click, a field that is filled, a key.

import assert from "node:assert/strict";

import { Opened, onPage } from "./browser.js";

/** Fills the field of `key` with `text`, as somebody would: one action. @param {Opened} opened @param {string} key @param {string} text */
async function fill(opened, key, text) {
  await opened.page.click(`[data-key="${key}"] input[type=text]`, { count: 3 });
  await opened.page.keyboard.type(text);
}

onPage("schedules are compared for own times with three actions, in bare milliseconds", {}, async (opened) => {
  await fill(opened, "forward", "10");
  await fill(opened, "backward-input", "12.5");
  await fill(opened, "backward-weight", "7");
  await opened.rest();
  const { text, results } = await opened.answer("simulate");
  assert.match(text, /^forward = "10ms"/m);
  assert.match(text, /^backward-input = "12.5ms"/m);
  assert.equal(results[0].work_ns, 8 * 29_500_000);
  assert.match(await opened.page.$eval(".headline .lead", (one) => one.textContent ?? ""), /^Best that fits, of .* times as fast as 1f1b\.$/);
  // The field says what was understood.
  assert.equal(await opened.page.$eval("[data-key=forward] input[type=text]", (one) => /** @type {HTMLInputElement} */ (one).value), "10ms");
});

onPage("the best schedule under a memory limit takes two actions", {}, async (opened) => {
  await fill(opened, "memory-limit", "3GiB");
  await (await opened.named("checkbox", "all that apply").waitHandle()).click();
  await opened.until("simulate", (one) => one.answer !== undefined && one.request.change?.schedule?.[0] === "all");
  await opened.rest();
  const { results } = await opened.answer("simulate");
  const fit = results.filter((/** @type {any} */ one) => one.fits && one.measured_updates === undefined);
  const least = Math.min(...fit.map((/** @type {any} */ one) => one.span_ns));
  const name = await opened.page.$eval(".headline strong", (one) => one.textContent);
  assert.equal(results.find((/** @type {any} */ one) => one.schedule === name).span_ns, least);
  assert.ok(results.length > 20);
});

onPage("a link takes two actions", {}, async (opened) => {
  await opened.page.click(".share > summary");
  await opened.press("Link");
  await opened.rest();
  const link = await opened.page.$eval(".share textarea", (one) => /** @type {HTMLTextAreaElement} */ (one).value);
  const { text } = await opened.answer("simulate");
  assert.equal(new URLSearchParams(new URL(link).hash.slice(1)).get("scenario"), text);
});
