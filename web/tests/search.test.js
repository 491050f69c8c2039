// A search says how far it is, stops with the best so far, and ends with what the command line finds.

import assert from "node:assert/strict";

import { onPage } from "./browser.js";
import { agrees, file, json, ran } from "./program.js";

const SMALL = `stages = 4
microbatches = 8
forward = "10ms"
backward-input = "11ms"
backward-weight = "9ms"
hop = "500us"
activation = "1GiB"
memory-limit = "3GiB"
`;

/** A question whose bound no order reaches within a lifetime. */
const LARGE = SMALL.replace("stages = 4", "stages = 12").replace("microbatches = 8", "microbatches = 40")
  .replace('"3GiB"', '"9GiB"');

for (const from of /** @type {const} */ (["disk", "server"])) {
  const link = { view: "search", scenario: LARGE, search: JSON.stringify({ effort: 1e6 }) };
  onPage(`a search from a ${from} says how far it is, and stops with the best so far`, { from, link }, async (opened) => {
    await opened.named("button", "Search").click();
    await opened.until("search", ({ progress }) => progress > 3);
    const bar = await opened.named("progressbar", "Progress of: Search").waitHandle();
    const shown = await bar.evaluate((one) => Number(/** @type {HTMLProgressElement} */ (one).value));
    assert.ok(shown >= 0 && shown < 1, `the bar shows ${shown}`);
    await opened.press("Stop");
    await opened.until("search", ({ answer, failure, broken, ended }) => Boolean(answer || failure || broken || ended));
    const { results, interrupted, found } = await opened.answer("search");
    assert.equal(interrupted, true);
    const [{ cost_ns: cost, bound_ns: bound, published_ns: published }] = results;
    assert.ok(bound < cost && cost <= published, `${bound} < ${cost} <= ${published}`);
    const { status, stdout } = ran("verify", file(`stopped-${from}.toml`, found[0].certificate));
    assert.equal(status, 0, stdout);
    await opened.rest();
    // The page can search again.
    assert.equal(await (await opened.named("button", "Search").waitHandle()).evaluate((one) => /** @type {any} */ (one).disabled), false);
  });
}

onPage("a finished search is that of the command line, with a certificate that holds",
  { link: { view: "search", scenario: SMALL } }, async (opened) => {
    await opened.named("button", "Search").click();
    await opened.until("search", ({ answer, failure, broken }) => Boolean(answer || failure || broken));
    await opened.rest();
    const answer = await opened.answer("search");
    const question = file("search.toml", SMALL);
    agrees(answer, json("search", question, "--json"), "the search");
    const { status, stdout, stderr } = ran("verify", file("found.toml", answer.found[0].certificate));
    assert.equal(status, 0, stdout + stderr);
    ran("search", question, "--certificate", "there.toml");
    assert.equal(ran("verify", "there.toml").stdout, stdout);
    const order = file("order.txt", answer.found[0].order);
    const [ours] = json("simulate", question, "--schedule", order, "--json").results;
    assert.equal(ours.span_ns, answer.results[0].cost_ns);
  });

onPage("the first search that a visitor sees shows a gain", {}, async (opened) => {
  await opened.choose("Search");
  const { results: [{ cost_ns: cost, published_ns: published }] } = await opened.answer("search");
  assert.ok(cost < published, `${cost} < ${published}`);
  assert.match(await opened.page.$eval("#search .answer .lead", (one) => one.textContent ?? ""), /% shorter than zb-v/);
});
