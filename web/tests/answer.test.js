// The answer stands first: a headline, the schedule to take, and what does not compare apart.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

import { Opened, onPage } from "./browser.js";
import { file, json } from "./program.js";

/** The question of the README. */
const FIRST = readFileSync(new URL("../../scenarios/first.toml", import.meta.url), "utf8");

/** The text of the first element that `selector` finds. @param {Opened} opened @param {string} selector */
const text = (opened, selector) => opened.page.$eval(selector, (one) => one.textContent ?? "");
/** The names in the table, group by group. @param {Opened} opened */
const groups = (opened) => opened.page.$$eval(".results tbody", (all) => all.map((body) =>
  [...body.querySelectorAll(".name")].map((one) => one.textContent)));

/** The headline of the command line for the question `scenario` about `schedules`, or its own. @param {string} scenario @param {string[]} schedules */
const expected = (scenario, ...schedules) => json("simulate", file("headline.toml", scenario), ...schedules, "--json").headline;

onPage("the headline says which of all schedules is the best that fits, and by how much", { link: { view: "play", scenario: FIRST } }, async (opened) => {
  const shown = (await opened.answer("simulate")).headline, all = expected(FIRST, "--schedule", "all");
  assert.equal(shown, expected(FIRST));
  assert.match(shown, /^Best that fits, of these 5 schedules: zb-v, 2\.52 % bubble, .* 1\.27 times as fast as 1f1b\.$/);
  assert.equal(await text(opened, ".headline .lead"), all);
  assert.match(all, /^Best that fits, of the \d+ synchronous schedules that apply: zb-auto, /);
  assert.equal(await text(opened, ".results tr.taken .name"), "zb-v");
  assert.equal((await opened.page.$$(".results .badge")).length, 1);
  // The table has what answers the question, and the rest on demand.
  const columns = () => opened.page.$$eval(".results thead th", (all) => all.map((one) => one.textContent));
  assert.deepEqual(await columns(), ["schedule", "bubble", "span", "peak memory", "fits", "faster than 1f1b", "causes"]);
  await (await opened.named("checkbox", "all columns").waitHandle()).click();
  assert.ok((await columns()).includes("bubble/makespan") && (await columns()).length === 14);
  const glossary = readFileSync(new URL("../../docs/glossary.md", import.meta.url), "utf8");
  const meaning = await opened.page.$$eval(".results thead button", (all) => all.find((one) => one.textContent === "span")?.title ?? "");
  assert.ok(meaning && glossary.replaceAll(/\n {2}/g, " ").includes(meaning), `the glossary does not say: ${meaning}`);
});

onPage("a schedule that breaks the limit is not the best, and 'fits only' leaves it out", { link: { view: "play", scenario: FIRST } }, async (opened) => {
  const fastest = FIRST.replace(/^schedule = .*$/m, 'schedule = ["1f1b", "zb-2p"]');
  await opened.follow({ view: "play", scenario: fastest });
  assert.match((await opened.answer("simulate")).headline, /^Best that fits, of these 2 schedules: 1f1b, /);
  assert.match(await text(opened, ".headline .lead"), /schedules that apply: zb-auto, /);
  assert.equal((await opened.page.$$(".results .badge")).length, 1);
  await (await opened.named("checkbox", "fits only").waitHandle()).click();
  await opened.rest();
  assert.deepEqual(await groups(opened), [["1f1b"]]);
  assert.equal((await opened.page.$$(".charts canvas")).length, 1);
  const shown = await opened.page.$$eval(".schedule", (all) => all.filter((one) => !/** @type {HTMLElement} */ (one).hidden)
    .map((one) => one.querySelector("label")?.textContent));
  assert.ok(shown.includes("zb-v") && !shown.includes("zb-2p") && !shown.includes("zb-h2"), shown.join());
});

onPage("asynchronous schedules stand apart, and are neither the best nor on the front", {}, async (opened) => {
  const { page } = opened, scenario = FIRST.replace(/^schedule = .*$/m, 'schedule = ["pipedream", "1f1b", "zb-h1"]');
  await opened.follow({ view: "play", scenario });
  const { results } = await opened.answer("simulate");
  assert.ok(results[0].bubble_rate < results[2].bubble_rate, "pipedream would win");
  assert.match((await opened.answer("simulate")).headline, /^Best that fits, of these 2 synchronous schedules: zb-h1, /);
  assert.deepEqual(await groups(opened), [["1f1b", "zb-h1"], ["pipedream"]]);
  assert.match(await text(opened, ".results .apart"), /older weights.*do not compare/);
  await page.$$eval("summary", (all) => all.find((one) => one.textContent?.startsWith("All schedules"))?.click());
  await opened.until("simulate", (one) => one.request.front && Boolean(one.answer));
  await opened.rest();
  assert.match(await text(opened, ".pareto"), /asynchronous: not compared/);
  const dashes = await page.$eval("[aria-label^='pipedream: bubble'] circle:last-child", (one) => getComputedStyle(one).strokeDasharray);
  assert.notEqual(dashes, "none");
});

onPage("the memory of each stage stands beside its timeline, with the limit", { link: { view: "play", scenario: FIRST } }, async (opened) => {
  const sides = await opened.page.$$eval(".chart .beside", (all) => all.map((one) => ({ said: one.getAttribute("aria-label"),
    over: one.querySelectorAll(".over").length, bars: one.querySelectorAll(".peak").length, limits: one.querySelectorAll(".allowed").length })));
  assert.equal(sides.length, 5);
  assert.deepEqual(sides[0], { said: "Peak memory of 1f1b: 27.75 GiB, limit 32.00 GiB", over: 0, bars: 8, limits: 8 });
  assert.ok(sides[3].over > 0, "zb-2p breaks the limit");
  // Bars lie in the rows of the timeline.
  const [bar, row] = await opened.page.$eval(".chart", (chart) => {
    const canvas = chart.querySelector("canvas")?.getBoundingClientRect(), bars = chart.querySelectorAll(".peak");
    return [bars[7].getBoundingClientRect().bottom, canvas?.bottom ?? 0];
  });
  assert.ok(bar <= row && row - bar < 20, `${bar} of ${row}`);
});

onPage("schedules are chosen in groups with a line each, and filtered", {}, async (opened) => {
  const { page } = opened;
  const names = await page.$$eval(".group > summary", (all) => all.map((one) => one.firstChild?.textContent?.trim()));
  for (const name of ["Classic", "Zero Bubble", "V", "Offload", "Bidirectional", "Asynchronous", "Vocabulary"]) assert.ok(names.includes(name), name);
  const lines = await page.$$eval(".schedule .line", (all) => all.map((one) => one.textContent?.trim() ?? ""));
  assert.ok(lines.length > 40 && lines.every((line) => line.endsWith(".")), lines.join("\n"));
  await page.type("input[aria-label='Filter schedules']", "dualpipe");
  const shown = await page.$$eval(".schedule", (all) => all.filter((one) => one.checkVisibility()).map((one) => one.querySelector("label")?.textContent));
  assert.ok(shown.includes("dualpipe") && !shown.includes("1f1b"), shown.join());
});

onPage("a search completes the headline, with its bound", {}, async (opened) => {
  await opened.press("Search");
  await opened.until("search", ({ answer, failure, broken }) => Boolean(answer || failure || broken));
  await opened.rest();
  assert.equal(await opened.chosen(), "Search");
  const { results: [result] } = await opened.answer("search");
  const said = await text(opened, "#search .lead");
  assert.equal(said, (await opened.answer("search")).headline);
  assert.ok(said.includes(`: ${(100 * result.bubble_rate).toFixed(2)} % bubble, `) && said.includes(result.published), said);
  await opened.choose("Play");
  assert.equal(await text(opened, ".headline .lead"), (await opened.answer("simulate")).applicable.headline);
  const bound = result.gap_ns === 0 ? "no such order is below that" : `no such order is below ${(100 * result.bound_rate).toFixed(2)} %`;
  assert.ok((await text(opened, ".headline .further")).endsWith(`finds ${(100 * result.bubble_rate).toFixed(2)} %; ${bound}.`));
  // Of another question nothing was searched.
  await (await opened.named("slider", "Microbatches (m), slider").waitHandle()).focus();
  await opened.page.keyboard.press("ArrowRight");
  await opened.rest();
  assert.equal(await opened.page.$eval(".headline .further", (one) => one.checkVisibility()), false);
});

onPage("a schedule that beats those that are shown is named, and shown by a button", {}, async (opened) => {
  const { examples } = await opened.examples();
  const scenario = examples[0].text.replace(/^memory-limit = .*$/m, 'memory-limit = "3GiB"');
  await opened.follow({ view: "play", scenario });
  const { results, applicable } = await opened.answer("simulate"), [best] = applicable.best;
  assert.ok(results.every((/** @type {any} */ one) => one.schedule !== best), best);
  assert.ok((await text(opened, ".headline .lead")).includes(`: ${best}, `));
  await opened.press(`Show ${best}`);
  await opened.rest();
  assert.equal(await text(opened, ".results tr.taken .name"), best);
  const buttons = await opened.page.$$eval(".headline button", (all) => all.map((one) => one.textContent ?? ""));
  assert.ok(!buttons.some((one) => one.startsWith("Show ")), buttons.join());
});

onPage("the page says what it is, and its title follows the question", {}, async (opened) => {
  const { page } = opened;
  assert.match(await text(opened, "header .about"), /pipeline-parallel training/);
  const metas = await page.$$eval("meta[name=description], meta[property^='og:']", (all) => all.map((one) => one.getAttribute("content") ?? ""));
  assert.ok(metas.length >= 4 && metas.every(Boolean));
  const title = () => page.title();
  const { examples } = await opened.examples();
  assert.equal(await title(), `${examples[0].title} - debubble`);
  await page.select("select[aria-label=Examples]", examples[1].name);
  await opened.rest();
  assert.equal(await title(), `${examples[1].title} - debubble`);
  assert.equal(await page.$eval("h2", (one) => one.textContent), examples[1].title);
});

onPage("the first example is small enough to read the numbers of its passes", {}, async (opened) => {
  const { results } = await opened.answer("simulate");
  assert.deepEqual([results[0].stages, results[0].microbatches], [4, 8]);
  // What is written on passes, by way of the canvas.
  const written = await opened.page.evaluate(() => {
    /** @type {string[]} */
    const all = [], { fillText } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) { all.push(text); return fillText.call(this, text, ...rest); };
    dispatchEvent(new Event("beforeprint"));
    CanvasRenderingContext2D.prototype.fillText = fillText;
    return all;
  });
  // Each of 8 microbatches has a number on 4 stages in 4 timelines, of F and of B at least.
  for (let microbatch = 0; microbatch < 8; microbatch += 1) {
    const found = written.filter((text) => text === String(microbatch) || text.endsWith(`.${microbatch}`)).length;
    assert.ok(found >= 4 * 4 * 2, `${found} of microbatch ${microbatch}`);
  }
});
