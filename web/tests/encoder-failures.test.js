// Encoders in front of a model, and dead workers: the page's answers are the command line's, and saved questions open in their tab.

import assert from "node:assert/strict";

import { Opened, onPage } from "./browser.js";
import { agrees, file, json } from "./program.js";

const ENCODER = `schedule = ["1f1b", "zb-h1"]
stages = 4
microbatches = 6
forward = "20ms"
encoder-forward = "10ms"
encoder-layers = 4
`;
const SCENARIO = `schedule = ["1f1b", "zb-h1"]
stages = 4
microbatches = 8
forward = "10ms"
backward-input = "10ms"
backward-weight = "10ms"
hop = "500us"
`;
const PLACE = "Compare the placements", REROUTE = "Reroute the passes";

/** @param {import("./watch.js").Asked} asked */
const done = ({ answer, failure, broken, ended }) => Boolean(answer || failure || broken || ended);

/** Presses the button of the tab, and waits for the end. @param {Opened} opened @param {string} kind @param {string} act */
async function ask(opened, kind, act) {
  await opened.press(act);
  await opened.until(kind, done);
  await opened.rest();
}

/** The text of what is shown there. @param {Opened} opened @param {string} selector */
const text = (opened, selector) => opened.page.$eval(selector, (one) => one.checkVisibility() ? one.textContent ?? "" : "");

/** The buttons below the answer of the tab `kind`. @param {Opened} opened @param {string} kind */
const buttons = (opened, kind) => opened.page.$$eval(`#${kind} .answer button`, (all) => all.map((one) => one.textContent));

/** Copies the question as `what`. @param {Opened} opened @param {string} kind @param {string} what */
async function copied(opened, kind, what) {
  await opened.page.$$eval(`#${kind} summary`, (all) => all.forEach((one) => {
    if (one.textContent === "The question elsewhere") /** @type {HTMLDetailsElement} */ (one.parentElement).open = true;
  }));
  await opened.press(what);
  await opened.rest();
  return opened.page.$eval(`#${kind} textarea[aria-label='What was copied']`, (one) => /** @type {HTMLTextAreaElement} */ (one).value);
}

onPage("the example of the tab Encoder is answered as on the command line, with the step in time", { link: { view: "encoder" } }, async (opened) => {
  const { examples } = await opened.examples("encoder");
  await ask(opened, "encoder", PLACE);
  const answer = await opened.answer("encoder");
  agrees(answer.answer, json("encoder", file("vit.toml", examples[0].text), "--json"), examples[0].title);
  assert.match(await text(opened, "#encoder .answer .lead"), /Shortest step: \S+ with the encoder in the bubbles of all stages: a step of .*, [\d.]+ % more steps per hour/);
  assert.ok(await opened.page.$("#encoder .answer .picture svg"));
  assert.match(answer.operations, /^stage,operation,first_layer,layers,start_ns,end_ns\n/);
  const all = await buttons(opened, "encoder");
  for (const name of ["JSON", "CSV", "Picture", "Operations as CSV"]) assert.ok(all.includes(name), all.join());
});

onPage("a fault of an encoder stands at its field, and the command that is copied asks the same", { link: { view: "encoder", encoder: `${ENCODER}own-stages = 4\n` } }, async (opened) => {
  const { page } = opened;
  await ask(opened, "encoder", PLACE);
  assert.match(await text(opened, "#encoder [data-key=own-stages] .fault"), /both encoder and model need some/);
  await opened.follow({ view: "encoder", encoder: ENCODER });
  const command = (await copied(opened, "encoder", "Copy for the command line")).trim().split(" ");
  assert.match(await copied(opened, "encoder", "Copy as Python"), /db\.encoder\(.*encoder_forward="10ms"/);
  await ask(opened, "encoder", PLACE);
  agrees((await opened.answer("encoder")).answer, json(...command.slice(1), "--json"), "the command");
  assert.equal(await page.$("#encoder textarea[aria-label^='Lengths']"), null);
  await opened.follow({ view: "encoder", encoder: ENCODER.replace("microbatches = 6", "microbatches = 60000") });
  await ask(opened, "encoder", PLACE);
  assert.match(await text(opened, "#encoder .error"), /at most .* on a page/);
});

onPage("dead workers of the question of Play are rerouted at first sight, as on the command line", { link: { view: "failures" } }, async (opened) => {
  assert.equal(await opened.page.$eval("#failures [data-key=data-parallel] input", (one) => /** @type {HTMLInputElement} */ (one).value), "4");
  await ask(opened, "failures", REROUTE);
  const { examples } = await opened.examples();
  const expected = json("failures", file("first.toml", examples[0].text), "--data-parallel", "4", "--json");
  agrees((await opened.answer("failures")).answer, expected, "the first example");
  assert.match(await text(opened, "#failures .answer .lead"), /With one worker dead where it costs most, \S+ with \S+ backwards has the shortest step that fits: .* % longer than/);
  const all = await buttons(opened, "failures");
  assert.ok(all.includes("JSON") && all.includes("CSV") && all.includes("Picture"), all.join());
});

onPage("policies are compared, and the command that is copied asks the same", { link: { view: "failures", scenario: SCENARIO, failures: 'data-parallel = 3\ndead = ["0.1", "1.3"]\nmtbf = "7200s"\n' } }, async (opened) => {
  const { page } = opened;
  await ask(opened, "failures", REROUTE);
  assert.match(await text(opened, "#failures .answer"), /With workers 0\.1, 1\.3 dead, .*In the long run \S+ with \S+ backwards and the policy \S+ does the most steps/s);
  const command = await copied(opened, "failures", "Copy for the command line");
  const [, scenario, last] = /** @type {string[]} */ (/^cat > scenario.toml <<'END'\n(.*)\nEND\n(.*)\n$/s.exec(command));
  const words = last.replace("scenario.toml", file("copied.toml", scenario)).split(" ");
  agrees((await opened.answer("failures")).answer, json(...words.slice(1), "--json"), "the command");
  assert.match(await copied(opened, "failures", "Copy as Python"), /print\(db\.failures\(question, data_parallel=3, dead=\["0\.1","1\.3"\], mtbf="7200s"\)\)/);
  // Another question of Play makes the answer an old one.
  assert.equal(await page.$("#failures .answer.stale"), null);
  await opened.follow({ view: "failures", scenario: SCENARIO.replace("microbatches = 8", "microbatches = 12"), failures: "data-parallel = 1\n" });
  assert.ok(await page.$("#failures .answer.stale"));
  await ask(opened, "failures", REROUTE);
  assert.match(await text(opened, "#failures [data-key=data-parallel] .fault"), /no worker has a peer/);
});

onPage("a long question of dead workers is stopped, and answers with the orders by then", { from: "server", link: { view: "failures", scenario: SCENARIO, failures: "data-parallel = 4\neffort = 1000\n" } }, async (opened) => {
  await opened.press(REROUTE);
  await opened.until("failures", ({ progress }) => progress > 0);
  await opened.press("Stop");
  await opened.until("failures", done);
  await opened.rest();
  const { answer } = await opened.answer("failures");
  assert.equal(answer.interrupted, true);
  assert.ok(answer.results[0].rerouted.step_ns >= answer.results[0].rerouted.bound_ns);
});

onPage("saved questions open in their own tab", { link: { view: "open" } }, async (opened) => {
  const saved = { rl: 'model = "qwen2.5-7b"\nmachine = "h100"\ndevices = 8\n', fsdp: "minibatch-size = 4\nminibatches = 3\n", encoder: ENCODER, failures: "data-parallel = 2\n" };
  const tabs = { rl: "Where does the time of an RL step go?", fsdp: "How should I pack samples of unequal length?", encoder: "Where should a vision encoder run?", failures: "What does a failed worker cost?" };
  for (const [kind, question] of Object.entries(saved)) {
    const tab = tabs[/** @type {keyof typeof tabs} */ (kind)];
    await opened.choose("What is in my file?");
    await opened.give(file(`${kind}.toml`, question));
    await opened.press("Ask this question");
    await opened.rest();
    assert.equal(await opened.chosen(), tab);
    assert.equal(await opened.page.evaluate((kind) => new URLSearchParams(location.hash.slice(1)).get(kind), kind), question);
  }
});
