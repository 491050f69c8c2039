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

onPage("a model that is pasted over an example begins a new question, and what is kept is said", { link: { view: "plan" } }, async (opened) => {
  const { page } = opened, { examples } = await opened.examples("plan");
  await page.$eval("textarea[aria-label='config.json of the model']", (field, text) => {
    /** @type {HTMLTextAreaElement} */ (field).value = text;
    field.dispatchEvent(new InputEvent("input", { bubbles: true, inputType: "insertFromPaste" }));
  }, CONFIG);
  await page.waitForFunction(() => location.hash.includes("config="));
  await opened.rest();
  const { plan } = await page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
  assert.doesNotMatch(plan, /title|training|setup|precision|overlap|optimizer-bytes/);
  assert.match(plan, /^batch = 512$/m);
  const banner = await page.$eval(".banner", (one) => one.checkVisibility() ? one.textContent ?? "" : "");
  for (const word of ["tokens 1000000000000", "batch 512", "64 h100", "64 b200", "in 16 bits"]) assert.ok(banner.includes(word), banner);
  // Back leads to the example.
  await page.goBack();
  await opened.rest();
  const shown = () => page.$eval("textarea[aria-label='The question as a file']", (one) => /** @type {HTMLTextAreaElement} */ (one).value);
  assert.equal(await shown(), examples[0].text);
});

/** A set-up that no framework runs: torch has no passes S and T. */
const OWN = `${QUESTION}
[setup]
tensor = 4
pipeline = 4
schedule = "v-half-vocab-1"

[training]
precision = "fp8-blockwise"
`;

onPage("a plan says its precision, and one that no framework runs comes without scripts", { link: { view: "plan", plan: OWN, config: CONFIG } }, async (opened) => {
  await opened.named("button", "Plan").click();
  await opened.until("plan", ({ answer, failure, broken, ended }) => Boolean(answer || failure || broken || ended));
  await opened.rest();
  const { taken, runs, columns, rows, headline } = await opened.answer("plan");
  const text = await opened.text();
  assert.match(taken.join(), /of the fp8-blockwise peak/);
  assert.ok(text.includes(headline), text);
  assert.match(text, /MFU [^,]* % of the\s+fp8-blockwise\s+peak/);
  assert.equal(rows[0][columns.indexOf("schedule")], "[v-half-vocab-1]");
  assert.equal(runs, false);
  const buttons = await opened.page.$$eval("#plan .answer button", (all) => all.map((one) => one.textContent));
  assert.deepEqual(buttons.filter((one) => /megatron|torchtitan|schedule.csv/.test(one ?? "")), []);
  assert.match(text, /No framework runs this plan/);
});

onPage("a plan that a framework runs has its scripts", { link: { view: "plan", plan: QUESTION, config: CONFIG } }, async (opened) => {
  await opened.named("button", "Plan").click();
  await opened.until("plan", ({ answer, failure, broken, ended }) => Boolean(answer || failure || broken || ended));
  await opened.rest();
  assert.equal((await opened.answer("plan")).runs, true);
  const buttons = await opened.page.$$eval("#plan .answer button", (all) => all.map((one) => one.textContent));
  assert.ok(buttons.includes("torchtitan.toml"), buttons.join());
});

/** A question whose adapters and frozen parts stand in fields. */
const ADAPTERS = `${QUESTION}
[training]
lora-rank = 16
lora-modules = ["linear_qkv"]
frozen = ["embeddings"]
`;

onPage("a fault of a key of a table stands at its field, and adapters are planned once it is mended", { link: { view: "plan", plan: ADAPTERS, config: CONFIG } }, async (opened) => {
  const { page } = opened, field = "#plan [data-key=frozen]";
  /** @param {import("./watch.js").Asked} asked */
  const done = ({ answer, failure, broken, ended }) => Boolean(answer || failure || broken || ended);
  await opened.press("Plan");
  await opened.until("plan", done);
  await opened.rest();
  const [seen, fault] = await page.$eval(`${field} .fault`, (one) => [one.checkVisibility(), one.textContent ?? ""]);
  assert.ok(seen, "the table of the field is folded");
  assert.match(String(fault), /did you mean `embedding`/);
  await page.$eval(`${field} input`, (one) => {
    /** @type {HTMLInputElement} */ (one).value = "embedding, layers:0-3";
    one.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await page.waitForFunction(() => new URLSearchParams(location.hash.slice(1)).get("plan")?.includes("layers:0-3"));
  await opened.press("Plan");
  await opened.until("plan", done);
  await opened.rest();
  assert.ok((await opened.answer("plan")).plans.length > 0);
  assert.equal(await page.$eval(`${field} .fault`, (one) => one.textContent), "");
});

onPage("the example is answered when the tab is opened: headline first, it fits, and a framework runs it", {}, async (opened) => {
  await opened.choose("Plan");
  const answer = await opened.answer("plan");
  assert.equal(answer.runs, true);
  const fit = await opened.page.$eval("#plan .answer > .lead", (one) => one.textContent ?? "");
  assert.match(fit, /^The plan to take: .* days .* dollars/);
  assert.doesNotMatch(await opened.text(), /may fit: /);
  assert.ok(await opened.page.$("#plan .planned .answer .lead") && await opened.page.$("#plan .planned .stack"));
  // The plot is folded, and the tab has no text of a terminal.
  assert.equal(await opened.page.$eval("#plan .planned figure svg", (one) => one.checkVisibility()), false);
  assert.deepEqual(await opened.page.$$eval("#plan .answer > pre", (all) => all.length), 0);
});
