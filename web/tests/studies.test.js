// Packing and steps of reinforcement learning: the page's answers are the command line's, and faults stand at their field.

import assert from "node:assert/strict";

import { Opened, onPage } from "./browser.js";
import { agrees, file, json } from "./program.js";

/** A step that is simulated quickly. */
const RL = `model = "qwen2.5-1.5b"
machine = "h100"
devices = 4
prompts = 8
responses = 4
steps = 2
response-lengths = "lognormal:200:0.9:1000"
`;
const FSDP = `devices = [2, 4]
minibatch-size = [1, 4]
layers = 2
minibatches = 5
`;

/** The tabs: their names, the name of their question, their button, what they answer. @type {[string, string, string, RegExp][]} */
const TABS = [
  ["Where does the time of an RL step go?", "rl", "Predict the step", /A step takes about .* on 8 devices, .* by the errors of five published steps; the rollout takes \d+ % of it\./],
  ["How should I pack samples of unequal length?", "fsdp", "Compare the ways", / is [\d.]+ times as fast as lb-micro with collectives/],
];

/** The flags that ask for `keys`. @param {Record<string, any>} keys */
const flags = (keys) => Object.entries(keys).flatMap(([key, one]) => one === true ? [`--${key}`] : [`--${key}`, [one].flat().join(",").replaceAll(", ", ",")]);

/** @param {import("./watch.js").Asked} asked */
const done = ({ answer, failure, broken, ended }) => Boolean(answer || failure || broken || ended);

/** Presses the button of the tab, and waits for the end. @param {Opened} opened @param {string} kind @param {string} act */
async function ask(opened, kind, act) {
  await opened.press(act);
  await opened.until(kind, done);
  await opened.rest();
}

/** The keys of the question `text`. @param {Opened} opened @param {string} kind */
const values = (opened, kind) => opened.page.$$eval(`#${kind} [data-key]`, (all) => Object.fromEntries(all.flatMap((one) => {
  const field = /** @type {HTMLInputElement} */ (one.querySelector(".control > input, .control > select"));
  return field.value ? [[/** @type {HTMLElement} */ (one).dataset.key, field.value]] : [];
})));

for (const [tab, kind, act, lead] of TABS) {
  onPage(`the example of the tab ${tab} is shown at the start, and its answer is that of the command line`, { link: { view: kind } }, async (opened) => {
    const { examples } = await opened.examples(kind), { page } = opened;
    const shown = await values(opened, kind);
    for (const line of examples[0].text.split("\n").filter((/** @type {string} */ one) => one.includes(" = "))) {
      const [key, value] = line.split(" = ");
      assert.equal(shown[key], value.replaceAll(/[[\]"]/g, ""), key);
    }
    assert.equal(await page.evaluate((kind) => new URLSearchParams(location.hash.slice(1)).get(kind), kind), null);
    await ask(opened, kind, act);
    const { answer, csv } = await opened.answer(kind);
    agrees(answer, json(kind, ...flags(shown), "--json"), examples[0].title);
    assert.match(await page.$eval(`#${kind} .answer`, (one) => one.textContent ?? ""), lead);
    assert.ok(await page.$(`#${kind} .answer > .picture svg`));
    assert.ok(csv.split("\n").length > 3);
    const buttons = await page.$$eval(`#${kind} .answer button`, (all) => all.map((one) => one.textContent));
    for (const name of ["JSON", "CSV", "Picture"]) assert.ok(buttons.includes(name), buttons.join());
    // Whatever was asked has a row or a phase in a table.
    const cells = await page.$$eval(`#${kind} .answer td`, (all) => all.map((one) => one.textContent));
    assert.ok(cells.includes(kind === "rl" ? "rollout" : "lb-mini, on-demand"), cells.join());
  });
}

onPage("a change that is tried is asked with a button", { link: { view: "rl", rl: RL } }, async (opened) => {
  await ask(opened, "rl", "Predict the step");
  const before = await opened.answer("rl");
  const { step_ns: expected, lever } = before.answer.levers.find((/** @type {any} */ one) => one.lever === "partial rollouts");
  const asked = (await opened.questions("rl")).length;
  await opened.press(`Ask with ${lever}`);
  await opened.page.waitForFunction((asked) => /** @type {any} */ (window).watched.asked.filter((/** @type {any} */ one) => one.request.ask === "rl").length > asked, {}, asked);
  await opened.until("rl", done);
  await opened.rest();
  assert.match(await opened.page.evaluate(() => new URLSearchParams(location.hash.slice(1)).get("rl") ?? ""), /^rollout-budget = 500$/m);
  assert.equal((await values(opened, "rl"))["rollout-budget"], "500");
  assert.equal((await opened.answer("rl")).answer.step_ns, expected);
  // Back leads to the question before.
  await opened.page.goBack();
  await opened.rest();
  assert.equal((await values(opened, "rl"))["rollout-budget"], undefined);
});

onPage("lengths come of a column of a file, also of one that a link lends", { link: { view: "fsdp", fsdp: FSDP } }, async (opened) => {
  const rows = Array.from({ length: 40 }, (_, at) => JSON.stringify({ id: at, length: 100 + 37 * (at % 7) })).join("\n");
  const path = file("rows.jsonl", rows), { page } = opened;
  await opened.give(path);
  assert.equal((await values(opened, "fsdp")).lengths, "file:rows.jsonl:length");
  await ask(opened, "fsdp", "Compare the ways");
  const expected = json("fsdp", ...flags({ devices: [2, 4], "minibatch-size": [1, 4], layers: 2, minibatches: 5, lengths: `file:${path}:length` }), "--json");
  agrees((await opened.answer("fsdp")).answer, expected, "lengths of a file");
  const link = await page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
  assert.equal(JSON.parse(link["fsdp-files"])["rows.jsonl"], rows);
  const other = await Opened.open({ link });
  await ask(other, "fsdp", "Compare the ways");
  agrees((await other.answer("fsdp")).answer, expected, "lengths of a link");
  other.quiet();
  await other.close();
});

onPage("lengths and a config.json are pasted", { link: { view: "rl", rl: RL } }, async (opened) => {
  const { page } = opened, field = "#rl textarea[aria-label^='Lengths or a config.json']";
  await page.$$eval("#rl summary", (all) => all.find((one) => one.textContent?.startsWith("Lengths, models"))?.click());
  /** @param {string} text */
  const paste = async (text) => {
    await page.$eval(field, (one, text) => { /** @type {HTMLTextAreaElement} */ (one).value = text; }, text);
    await page.$$eval("#rl button", (all) => all.find((one) => one.textContent === "Take what is pasted")?.click());
    await opened.rest();
  };
  await paste("id,tokens\n1,300\n2,50\n");
  assert.equal((await values(opened, "rl"))["response-lengths"], "file:pasted.csv:tokens");
  await paste("7 8 9\n10\n");
  assert.equal((await values(opened, "rl"))["response-lengths"], "file:pasted.txt");
  await paste('{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,\n"intermediate_size": 128, "vocab_size": 512, "hidden_act": "silu", "max_position_embeddings": 4096, "tie_word_embeddings": false}');
  assert.equal((await values(opened, "rl")).model, "config.json");
  await ask(opened, "rl", "Predict the step");
  assert.ok((await opened.answer("rl")).answer.step_ns > 0);
  await paste("{ broken");
  assert.match(await page.$eval("#rl .fault[role=alert]", (one) => one.textContent ?? ""), /pasted\.jsonl/);
});

onPage("a fault stands at its field with the cure, and names no flag", { link: { view: "rl", rl: RL.replace("devices = 4", "devices = 4\ntensor = 3") } }, async (opened) => {
  const { page } = opened;
  await ask(opened, "rl", "Predict the step");
  const fault = await page.$eval("#rl [data-key=tensor] .fault", (one) => [one.checkVisibility(), one.textContent ?? ""]);
  assert.ok(fault[0], "the group of the field is folded");
  assert.match(String(fault[1]), /`tensor` 3 does not divide/);
  assert.equal(await page.$eval("#rl [data-key=tensor] input", (one) => one.getAttribute("aria-invalid")), "true");
  assert.match(await page.$eval("#rl .error", (one) => one.checkVisibility() ? one.textContent ?? "" : ""), /`tensor` 3/);
  // Corrected, it is answered.
  await page.$eval("#rl [data-key=tensor] input", (one) => {
    /** @type {HTMLInputElement} */ (one).value = "2";
    one.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await ask(opened, "rl", "Predict the step");
  assert.equal((await opened.answer("rl")).answer.rollout.engines, 2);
  assert.equal(await page.$eval("#rl .error", (one) => one.checkVisibility()), false);
});

/** Questions in links that are refused: of which tab, and a word of the message. @type {[string, string, RegExp][]} */
const REFUSED = [
  ["rl", "devices = = 8", /devices|expected/],
  ["rl", "modle = 1\n", /modle/],
  ["rl", RL.replace("prompts = 8", "prompts = 1000000"), /page|responses/],
  ["rl", "model = \"<img src=x onerror=document.title='broken'>\"\nmachine = \"h100\"\n", /<img src=x/],
  ["fsdp", FSDP.replace("[1, 4]", "60000"), /page/],
  ["fsdp", FSDP.replace("minibatches = 5", "minibatches = 10000000"), /page/],
  ["fsdp", "lengths = \"file:../../etc/passwd\"\n", /passwd/],
];

onPage("hostile questions in links are refused with a message, and the page lives", {}, async (opened) => {
  for (const [kind, text, message] of REFUSED) {
    await opened.follow({ view: kind, [kind]: text, [`${kind}-files`]: "[[[" });
    await opened.press(kind === "rl" ? "Predict the step" : "Compare the ways");
    await opened.rest();
    const shown = await opened.page.$eval(`#${kind} .error`, (one) => one.checkVisibility() ? one.textContent ?? "" : "");
    assert.match(shown, message, text);
  }
  await opened.follow({ view: "fsdp", fsdp: FSDP });
  await ask(opened, "fsdp", "Compare the ways");
  assert.equal((await opened.answer("fsdp")).answer.results.length, 20);
});

onPage("a long study is stopped, and answers with what there is", { from: "server", link: { view: "fsdp", fsdp: FSDP.replace("minibatches = 5", "minibatches = 200000") } }, async (opened) => {
  await opened.press("Compare the ways");
  await opened.until("fsdp", ({ progress }) => progress > 2);
  await opened.press("Stop");
  await opened.until("fsdp", done);
  await opened.rest();
  const { answer } = await opened.answer("fsdp");
  assert.equal(answer.interrupted, true);
  assert.ok(answer.results.length > 0 && answer.results[0].minibatches < 200_000);
});

onPage("a question is taken elsewhere as Python and as a command that asks the same", { link: { view: "fsdp", fsdp: FSDP } }, async (opened) => {
  const { page } = opened;
  await page.$$eval("#fsdp summary", (all) => all.find((one) => one.textContent === "The question elsewhere")?.click());
  const copied = async (/** @type {string} */ what) => {
    await opened.press(what);
    await opened.rest();
    return page.$eval("#fsdp textarea[aria-label='What was copied']", (one) => /** @type {HTMLTextAreaElement} */ (one).value);
  };
  assert.match(await copied("Copy as Python"), /db\.fsdp\(.*minibatch_size=\[1,4\]/);
  const command = (await copied("Copy for the command line")).trim().split(" ");
  assert.equal(command.shift(), "debubble");
  await ask(opened, "fsdp", "Compare the ways");
  agrees((await opened.answer("fsdp")).answer, json(...command, "--json"), "the command");
});
