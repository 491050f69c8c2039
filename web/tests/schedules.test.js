// A question without a schedule, and messages without flags.

import assert from "node:assert/strict";

import { Opened, onPage } from "./browser.js";

const TIMES = `stages = 4
microbatches = 8
forward = "1ms"
backward-input = "1ms"
backward-weight = "1ms"
`;
/** A flag of a command line. */
const FLAG = /(^|[^a-z-])--[a-z]/;

/** The schedules that the list has ticked. @param {Opened} opened */
const ticked = (opened) => opened.page.$$eval(".schedule", (all) => all.filter((one) => one.querySelector("input")?.checked)
  .map((one) => one.querySelector("label")?.textContent ?? ""));
/** The message of the page. @param {Opened} opened */
const wrong = (opened) => opened.page.$eval("#play [role=alert]", (one) => one.checkVisibility() ? one.textContent ?? "" : "");
/** Ticks `name` in the list, or no longer. @param {Opened} opened @param {string} name */
async function tick(opened, name) {
  await opened.page.$$eval(".schedule", (all, name) => all.find((one) => one.querySelector("label")?.textContent === name)?.querySelector("input")?.click(), name);
  await opened.rest();
}

onPage("a question of times without a schedule is answered for the usual ones", { link: { view: "play", scenario: TIMES } }, async (opened) => {
  const { examples } = await opened.examples();
  const usual = JSON.parse(/^schedule = (.*)$/m.exec(examples[0].text)?.[1] ?? "[]");
  const { results, text } = await opened.answer("simulate");
  assert.deepEqual(results.map((/** @type {any} */ one) => one.schedule), usual);
  assert.deepEqual(new Set(await ticked(opened)), new Set(usual));
  assert.equal(await wrong(opened), "");
  // The question is one to take away: it names them.
  assert.match(text, /^schedule = \[.*\]$/m);
  // Settings with schedules of their own keep them.
  const setting = (/** @type {string} */ name) => `[[setting]]\nname = "of ${name}"\nschedule = "${name}"\n`;
  await opened.follow({ view: "play", scenario: `${TIMES}${setting("1f1b")}${setting("zb-h1")}` });
  const own = await opened.answer("simulate");
  assert.deepEqual(own.results.map((/** @type {any} */ one) => one.schedule), ["1f1b", "zb-h1"]);
  assert.doesNotMatch(own.text, /^schedule = \[/m);
});

onPage("where the last schedule is taken out, the page asks for one", { link: { view: "play", scenario: `schedule = "1f1b"\n${TIMES}` } }, async (opened) => {
  await tick(opened, "1f1b");
  assert.match(await wrong(opened), /^No schedule is chosen: tick one in the list “Schedules”\.$/);
  assert.equal(await opened.page.$eval("#play .answer", (one) => one.classList.contains("stale")), true);
  await tick(opened, "zb-h1");
  assert.equal(await wrong(opened), "");
  const { results } = await opened.answer("simulate");
  assert.deepEqual(results.map((/** @type {any} */ one) => one.schedule), ["zb-h1"]);
});

onPage("no message and no help names a flag of the command line", {}, async (opened) => {
  const { page } = opened;
  for (const [scenario, says] of [
    [`stagess = 4\n${TIMES}`, /every field of this page has the name of its key/],
    [`schedule = "1f1b"\nstages = 4\nmicrobatches = 8\n[[setting]]\nname = "a"\n`, /`forward`/],
    [`schedule = "po-h"\n${TIMES}`, /`offload-time`/],
    [`schedule = "1f1b"\nhost-bandwidth = "1GB/s"\noffload = 0.5\n${TIMES}`, /`activation`/],
  ]) {
    await opened.follow({ view: "play", scenario: String(scenario) });
    assert.match(await wrong(opened), /** @type {RegExp} */ (says));
    assert.doesNotMatch(await wrong(opened), FLAG);
  }
  await opened.follow({ view: "search", scenario: `schedule = "1f1b"\njitter = "pass=lognormal:0.05"\n${TIMES}` });
  await opened.named("button", "Search").click();
  await opened.until("search", ({ failure }) => Boolean(failure));
  await opened.rest();
  const refused = await page.$eval("#search .work", (one) => one.textContent ?? "");
  assert.match(refused, /“Compare in Play”.*`objective`/s);
  assert.doesNotMatch(refused, FLAG);
  const helps = await page.$$eval(".help, .control label", (all) => all.flatMap((one) => [one.textContent ?? "", one.getAttribute("title") ?? ""]));
  assert.ok(helps.length > 400);
  // Commands stand between backticks.
  assert.deepEqual(helps.filter((text) => FLAG.test(text.replaceAll(/`[^`]*`/g, ""))), []);
});
