// The planner's answer is that of the command line.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

import { onPage } from "./browser.js";
import { agrees, file, json } from "./program.js";

const QUESTION = `model = "config.json"
tokens = 20e9
batch = 256
sequence = 2048

[[cluster]]
machine = "h100"
devices = [16]
`;
const CONFIG = readFileSync(new URL("../../tests/configs/llama-3-8b.json", import.meta.url), "utf8");

onPage("a plan is that of the command line", { link: { view: "plan", plan: QUESTION, config: CONFIG } }, async (opened) => {
  await opened.named("button", "Plan").click();
  await opened.until("plan", ({ answer, failure, broken, ended }) => Boolean(answer || failure || broken || ended));
  await opened.rest();
  file("config.json", CONFIG);
  const expected = json("plan", file("plan.toml", QUESTION), "--json");
  assert.ok(expected.plans.length > 0);
  agrees(await opened.answer("plan"), expected, "the plan");
});

onPage("an answer stands beside the one that was kept", { link: { view: "plan", plan: QUESTION, config: CONFIG } }, async (opened) => {
  /** @param {import("./watch.js").Asked} asked */
  const done = ({ answer, failure, broken, ended }) => Boolean(answer || failure || broken || ended);
  await opened.named("button", "Plan").click();
  await opened.until("plan", done);
  await opened.named("button", "Keep it to compare").click();
  await opened.named("button", "Plan").click();
  await opened.until("plan", done);
  await opened.rest();
  const { against } = await opened.answer("plan");
  // The same question twice: neither is faster.
  assert.match(against, /both are as fast/);
});
