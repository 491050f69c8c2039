// Each example gives the numbers of the command line.

import assert from "node:assert/strict";

import { onPage } from "./browser.js";
import { file, json } from "./program.js";

/**
 * All that the command line answers is in the page's answer, which says more.
 * @param {any} answer @param {any} expected @param {string} what
 */
export function agrees(answer, expected, what) {
  for (const [name, value] of Object.entries(expected)) {
    assert.deepEqual(answer[name], value, `${name} of ${what}`);
  }
}

onPage("each example gives the numbers of the command line", {}, async (opened) => {
  const { examples } = await opened.answer("examples");
  assert.ok(examples.length > 1);
  for (const { name, text } of examples) {
    await opened.follow({ view: "play", scenario: text });
    const asked = (await opened.questions("simulate")).at(-1);
    assert.ok(asked?.answer, `${name} is not answered: ${asked?.failure}`);
    agrees(JSON.parse(asked.answer), json("simulate", file(`${name}.toml`, text), "--json"), name);
  }
});
