// Every field has a label in words, and the name of its key.

import assert from "node:assert/strict";

import { Opened, onPage } from "./browser.js";

/** The fields of the tab that is shown: key, label and small print. @param {Opened} opened @param {string} tab */
const fields = (opened, tab) => opened.page.$$eval(`#${tab} [data-key]`, (all) => all.map((one) => ({
  key: /** @type {HTMLElement} */ (one).dataset.key ?? "",
  label: one.querySelector(".named > :is(label, span)")?.textContent ?? "",
  small: one.querySelector(".named > code")?.textContent ?? "",
})));

/** Tabs with forms, and the least of fields that each has. @type {[string, string, number][]} */
const FORMS = [["Play", "play", 85], ["Search", "search", 14], ["Plan", "plan", 110],
  ["How should I pack samples of unequal length?", "fsdp", 26], ["Where does the time of an RL step go?", "rl", 32], ["Where should a vision encoder run?", "encoder", 33], ["What does a failed worker cost?", "failures", 17]];

onPage("every field has a label in words, with the name of its key in small print", {}, async (opened) => {
  for (const [name, tab, least] of FORMS) {
    await opened.choose(name);
    const all = await fields(opened, tab);
    assert.ok(all.length >= least, `${all.length} fields in ${name}`);
    for (const { key, label, small } of all) {
      assert.match(label, /^[A-Z].* |^[A-Z][a-z]|^[FBWRST] \(/, `${name}: ${key} is called "${label}"`);
      assert.ok(label !== key && small === key, `${name}: ${key} has "${label}" and "${small}"`);
    }
    // Nothing is typed or chosen in a form but in such a field.
    const stray = await opened.page.$$eval(`#${tab} .controls :is(input, select)`, (all) => all
      .filter((one) => !one.closest("[data-key], label")).map((one) => one.outerHTML.slice(0, 120)));
    assert.deepEqual(stray, [], name);
  }
});

onPage("a field is found by its label, and by the name of its key", { link: { view: "play" } }, async (opened) => {
  const { page } = opened;
  const field = await opened.named("textbox", "B (input gradient)").waitHandle();
  const said = await page.evaluate((one) => [one.closest("[data-key]")?.getAttribute("data-key"),
    one.getAttribute("aria-describedby")?.split(" ").map((id) => document.getElementById(id)?.textContent)[0]], field);
  assert.deepEqual(said, ["backward-input", "backward-input"]);
  await page.$$eval("#play summary", (all) => all.find((one) => one.textContent === "All keys")?.click());
  for (const words of ["attention heads", "heads"]) {
    await page.$eval("input[aria-label='Search keys']", (one, words) => {
      /** @type {HTMLInputElement} */ (one).value = words;
      one.dispatchEvent(new Event("input", { bubbles: true }));
    }, words);
    assert.equal(await page.$eval("[data-key=heads]", (one) => one.checkVisibility()), true, words);
    assert.equal(await page.$eval("[data-key=steps]", (one) => one.checkVisibility()), false, words);
  }
});
