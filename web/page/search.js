// The tab "Search": the best order of passes for the question, and bubble against memory.

import { button, headline, make, picture, sheet } from "page/dom.js";
import { Fields, described } from "page/fields.js";
import { bytes, saver } from "page/files.js";
import * as figure from "page/figure9.js";
import * as link from "page/link.js";
import { put } from "page/question.js";
import * as state from "page/state.js";
import { Work } from "page/work.js";

/** Keys of a search that leave its question as it is. */
const HARMLESS = ["effort", "time-limit", "placement"];

/** The example for which a search gains over all named schedules. */
const GAINS = "gpt-6.2b";

let begun = null;

/** Begins the search, unless one is under way. */
export function run() {
  return begun.run();
}

/** Makes the tab. */
export async function begin({ engine, examples }) {
  const schema = await engine.ask({ ask: "schema", of: "search" });
  const fields = new Fields(described(schema), () => remember(fields.values));
  fields.show(remembered());
  const shown = make("div", { class: "answer", "aria-live": "polite" });
  const work = begun = new Work("Search", (own, options) => search(own, options, fields, shown));
  const asked = make("pre", {});
  state.listen((changed) => {
    if (!changed.has("scenario")) return;
    asked.textContent = state.now.scenario;
    shown.classList.add("stale");
  });
  let answered = false;
  state.listen(() => {
    if (state.now.view !== "search" || !state.now.scenario || answered) return;
    answered = true;
    if (!examples.some((one) => one.text === state.now.scenario)) return;
    // The question that the page begins with is too small for a search to gain anything.
    if (state.now.scenario === examples[0].text) state.change({ scenario: examples.find((one) => one.name === GAINS).text }, state.TYPING);
    work.run();
  });
  addEventListener("hashchange", () => fields.show(remembered()));
  document.getElementById("search").append(
    make("h2", {}, "The best order of passes"),
    make("p", {}, "Searches the order with the least bubble for the question of “Play”, and says how far any order can be from it."),
    make("details", { class: "box" }, make("summary", {}, "The question"), asked),
    make("details", { class: "box", open: Object.keys(remembered()).length > 0 }, make("summary", {}, "How to search"), fields.element),
    work.element, shown, ...await figure.parts(engine));
}

const remember = (values) => link.write({ ...link.read(), search: Object.keys(values).length ? JSON.stringify(values) : "" });

function remembered() {
  try {
    const values = JSON.parse(link.read().search || "{}");
    return typeof values === "object" && values ? values : {};
  } catch {
    return {};
  }
}

async function search(engine, options, fields, shown) {
  fields.settle();
  const text = state.now.scenario;
  try {
    const request = { ask: "search", text, keys: fields.values };
    const answer = await engine.ask(request, { ...options, files: state.now.files });
    const verdicts = await Promise.all(answer.found.map((one) => checked(engine, one)));
    shown.classList.remove("stale");
    shown.replaceChildren(...parts(answer, verdicts, text));
    const [result] = answer.results, same = Object.keys(fields.values).every((key) => HARMLESS.includes(key));
    if (same && answer.results.length === 1 && isPlain(result)) state.change({ found: { scenario: text, result } });
    return answer.interrupted ? "Stopped: the best orders by then." : "Done.";
  } catch (error) {
    if (error.failure?.key) fields.complain(error.failure.key, error.text);
    throw error;
  }
}

/** The verdict on the certificate of an order that was found. */
async function checked(engine, found) {
  const files = new Map([["order.cert", bytes(found.certificate)]]);
  return engine.ask({ ask: "verify", file: "order.cert" }, { files });
}

/** Whether `result` is of one step without noise on links that are not shared: others are judged otherwise. */
function isPlain(result) {
  return result.value_ns === undefined && !result.hardware;
}

function parts(answer, verdicts, text) {
  const notes = (answer.warnings || []).map((one) => make("p", { class: "note" }, one));
  const front = answer.front ? [picture(answer.front, "Bubble rate against peak memory of the orders found and the best published ones")] : [];
  return [
    ...headline(answer.sheet), ...notes, ...sheet(answer.sheet),
    make("div", { class: "buttons" }, saver("Table as CSV", "search.csv", () => answer.csv)),
    ...front, ...answer.found.map((one, at) => order(one, verdicts[at], text)),
  ];
}

/** An order that was found: its timeline, its files, its certificate. */
function order(found, verdict, text) {
  const name = found.title.replaceAll(/[^A-Za-z0-9.]+/g, "-");
  const torch = found.torch
    ? saver("Order as CSV for torch", `${name}.csv`, () => found.torch)
    : make("p", { class: "note" }, `torch cannot run it: ${found.not_torch}`);
  const holds = make("p", { class: verdict.holds ? "holds" : "fault" },
    verdict.holds ? "The certificate was checked from scratch, and holds." : "The certificate does not hold.");
  return make("section", { class: "found" },
    make("h3", {}, found.title), picture(found.svg, `Timeline of ${found.title}, above that of ${found.published ?? "no published schedule"}`),
    make("div", { class: "buttons" },
      saver("Order as text", `${name}.txt`, () => found.order), torch,
      saver("Certificate", `${name}.cert`, () => found.certificate),
      saver("Picture", `${name}.svg`, () => found.svg),
      button("Compare in Play", () => beside(found, text))),
    holds, make("details", { class: "box" }, make("summary", {}, "What was checked"), ...sheet(verdict.sheet)));
}

/** Shows the order in the tab Play, beside the schedules of the question. */
function beside(found, text) {
  return put(text, "found.txt", bytes(found.order));
}
