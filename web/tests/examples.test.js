// Each example gives the numbers of the command line.

import assert from "node:assert/strict";

import { onPage } from "./browser.js";
import { agrees, file, json } from "./program.js";

onPage("each example gives the numbers of the command line", {}, async (opened) => {
  const { examples } = await opened.examples();
  assert.ok(examples.length > 1);
  for (const { name, text } of examples) {
    await opened.follow({ view: "play", scenario: text });
    const asked = (await opened.questions("simulate")).at(-1);
    assert.ok(asked?.answer, `${name} is not answered: ${asked?.failure}`);
    agrees(JSON.parse(asked.answer), json("simulate", file(`${name}.toml`, text), "--json"), name);
  }
});
