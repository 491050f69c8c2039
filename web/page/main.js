// The page: tabs, the question in the link, and what is said at the top.

import { Engine } from "page/engine.js";
import * as link from "page/link.js";
import { settled } from "page/dom.js";
import * as state from "page/state.js";
import * as theme from "page/theme.js";
import * as play from "page/play.js";
import * as search from "page/search.js";
import * as plan from "page/plan.js";
import * as fsdp from "page/fsdp.js";
import * as rl from "page/rl.js";
import * as encoder from "page/encoder.js";
import * as failures from "page/failures.js";
import * as records from "page/records.js";
import * as open from "page/open.js";

/** @type {Record<string, { begin(page: object): Promise<void> }>} */
const TABS = { play, search, plan, fsdp, rl, encoder, failures, records, open };
const el = (id) => document.getElementById(id);

/** Says `text` at the top, as an error if it is one. */
export function say(text, error = false) {
  el("status").textContent = text;
  el("status").classList.toggle("error", error);
}

/** The names of the views that are tabs; the others are in the menu. */
const MAIN = ["play", "search", "plan"], OTHERS = Object.keys(TABS).filter((name) => !MAIN.includes(name));

function show(view) {
  for (const name of Object.keys(TABS)) {
    const chosen = name === view;
    el(name).hidden = !chosen;
    el(`tab-${name}`).setAttribute(MAIN.includes(name) ? "aria-selected" : "aria-checked", String(chosen));
    if (MAIN.includes(name)) el(`tab-${name}`).tabIndex = chosen || name === MAIN[0] && OTHERS.includes(view) ? 0 : -1;
  }
  el("others").classList.toggle("chosen", OTHERS.includes(view));
  title();
}

/** Names the window after the view and the question of “Play”. */
function title() {
  const { view, title } = state.now;
  const words = view === "play" ? title : view === "search" ? `Search: ${title}` : el(view).querySelector("h2")?.textContent;
  document.title = `${words || "pipeline schedules side by side"} - debubble`;
}

/** The name `step` places from `name` in `names`, and round. */
const next = (names, name, step) => names[(names.indexOf(name) + step + names.length) % names.length];

function tabs() {
  for (const name of MAIN) {
    const tab = el(`tab-${name}`);
    tab.addEventListener("click", () => state.change({ view: name }));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const view = next(MAIN, name, step);
      state.change({ view });
      el(`tab-${view}`).focus();
    });
  }
  menu();
}

/** The menu of the other questions: arrow keys, Home and End go through it, Escape closes it. */
function menu() {
  const unfold = (open) => {
    el("menu").hidden = !open;
    el("others").setAttribute("aria-expanded", String(open));
    if (open) el(`tab-${OTHERS.includes(state.now.view) ? state.now.view : OTHERS[0]}`).focus();
  };
  el("others").addEventListener("click", () => unfold(el("menu").hidden));
  el("others").addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown") return;
    event.preventDefault();
    unfold(true);
  });
  for (const name of OTHERS) {
    const item = el(`tab-${name}`);
    item.addEventListener("click", () => {
      unfold(false);
      el("others").focus();
      state.change({ view: name });
    });
    item.addEventListener("keydown", (event) => {
      const to = { ArrowDown: next(OTHERS, name, 1), ArrowUp: next(OTHERS, name, -1), Home: OTHERS[0], End: OTHERS.at(-1) }[event.key];
      if (to) {
        event.preventDefault();
        el(`tab-${to}`).focus();
      }
      if (event.key === "Escape" || event.key === "Tab") unfold(false);
      if (event.key === "Escape") el("others").focus();
    });
  }
  addEventListener("pointerdown", ({ target }) => {
    if (!el("menu").hidden && !el("menu").parentElement.contains(/** @type {Node} */ (target))) unfold(false);
  });
}

/** The parts of the address that are the page's own, as they are now. */
const parts = () => ({ ...link.read(), view: state.now.view, scenario: state.now.scenario });

/** What was changed last and does not stand in the address yet. */
let latest = null;

// Browsers bear only so many changes of an address, fewer than a slider makes.
const address = settled(() => {
  if (latest) link.write(parts());
  latest = null;
}, 300);

/** What a step shows anew: not the part of the timelines that the last question showed. */
const ANEW = { from: null, to: null, microbatch: null, example: null };

// Keeps the question in the address: what somebody types in place of what was there, all else as a step.
function remember(changed, by) {
  if (!changed.has("view") && !changed.has("scenario")) return;
  if (by === null) {
    // Back leads to what was typed last.
    if (latest) link.write(latest);
    link.step({ ...parts(), ...changed.has("scenario") ? ANEW : {} });
  }
  latest = by === null || by === state.HISTORY ? null : parts();
  address();
}

/** Keys that give times, without which there is no question. */
const TIMES = ["forward", "profile", "chain", "chain-file", "setting"];
/** What most questions are known by before they are read. */
const TIMED = /^\s*forward\s*=/m;

/** The question of the parts `asked` of a link, if they have one; what a link without times asks is a change of `example`. */
async function question(engine, asked, examples) {
  const named = examples.find(({ name }) => name === asked.example);
  if (!asked.scenario) return named?.text;
  if (TIMED.test(asked.scenario)) return asked.scenario;
  const { keys } = await engine.ask({ ask: "keys", text: asked.scenario }).catch(() => ({ keys: null }));
  if (!keys || TIMES.some((key) => key in keys)) return asked.scenario;
  const change = { title: null, source: null, ...keys };
  return (await engine.ask({ ask: "change", text: (named ?? examples[0]).text, change })).text;
}

/** The way past the form, to the timelines. */
function skip() {
  el("skip").addEventListener("click", () => {
    state.change({ view: "play" });
    play.enter();
  });
}

/** A link to the book, where the page lies in it. */
function book() {
  if (!/\/play\/(index\.html)?$/.test(location.pathname)) return;
  el("more").append(Object.assign(document.createElement("a"), { href: "../index.html", textContent: "The book" }));
}

/** The question of the link, or the first example. */
async function begin() {
  theme.begin(el("theme"));
  skip();
  book();
  const engine = new Engine();
  const { examples } = await engine.ask({ ask: "examples", of: "scenario" });
  const asked = link.read();
  const view = asked.view in TABS ? asked.view : "play";
  document.body.classList.toggle("embedded", asked.embed === "1");
  tabs();
  state.listen((changed, by) => {
    if (changed.has("view")) show(state.now.view);
    if (changed.has("title")) title();
    remember(changed, by);
  });
  addEventListener("hashchange", async () => {
    const asked = link.read(), scenario = await question(engine, asked, examples);
    state.change({ view: asked.view in TABS ? asked.view : state.now.view, scenario: scenario ?? state.now.scenario }, state.HISTORY);
  });
  for (const part of Object.values(TABS)) await part.begin({ engine, say, examples });
  const scenario = await question(engine, asked, examples);
  state.change({ view, scenario: scenario ?? examples[0].text }, state.TYPING);
  show(view);
  say("");
}

begin().catch((error) => say(error.text || error.message, true));
