// The page: tabs, the question in the link, and what is said at the top.

import { Engine } from "page/engine.js";
import * as link from "page/link.js";
import { settled } from "page/dom.js";
import * as state from "page/state.js";
import * as theme from "page/theme.js";
import * as play from "page/play.js";
import * as search from "page/search.js";
import * as plan from "page/plan.js";
import * as open from "page/open.js";

/** @type {Record<string, { begin(page: object): Promise<void> }>} */
const TABS = { play, search, plan, open };
const el = (id) => document.getElementById(id);

/** Says `text` at the top, as an error if it is one. */
export function say(text, error = false) {
  el("status").textContent = text;
  el("status").classList.toggle("error", error);
}

function show(view) {
  for (const name of Object.keys(TABS)) {
    const chosen = name === view;
    el(name).hidden = !chosen;
    el(`tab-${name}`).setAttribute("aria-selected", String(chosen));
    el(`tab-${name}`).tabIndex = chosen ? 0 : -1;
  }
}

function tabs() {
  const names = Object.keys(TABS);
  names.forEach((name, at) => {
    const tab = el(`tab-${name}`);
    tab.addEventListener("click", () => state.change({ view: name }));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = names[(at + step + names.length) % names.length];
      state.change({ view: next });
      el(`tab-${next}`).focus();
    });
  });
}

// Browsers bear only so many changes of an address, fewer than a slider makes.
const address = settled(() => {
  const { view, scenario } = state.now;
  link.write({ ...link.read(), view, scenario });
}, 300);

/** The question of the link, or the first example. */
async function begin() {
  theme.begin(el("theme"));
  const engine = new Engine();
  const { examples } = await engine.ask({ ask: "examples" });
  const parts = link.read();
  const view = parts.view in TABS ? parts.view : "play";
  document.body.classList.toggle("embedded", parts.embed === "1");
  tabs();
  state.listen((changed) => {
    if (changed.has("view")) show(state.now.view);
    if (changed.has("view") || changed.has("scenario")) {
      address();
    }
  });
  addEventListener("hashchange", () => {
    const { view: shown, scenario } = link.read();
    state.change({ view: shown in TABS ? shown : state.now.view, scenario: scenario ?? state.now.scenario });
  });
  for (const part of Object.values(TABS)) await part.begin({ engine, say, examples });
  state.change({ view, scenario: parts.scenario ?? examples[0].text });
  show(view);
  say("");
}

begin().catch((error) => say(error.text || error.message, true));
