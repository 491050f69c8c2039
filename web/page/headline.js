// The answer of “Play” in a line, and where to go from it.

import { button, make } from "page/dom.js";
import * as state from "page/state.js";
import { percent, short, times } from "page/words.js";

/** The card; `act` has what its buttons do: `search`, `share` and `plan`. */
export class Headline {
  constructor({ search, share, plan }) {
    this.lines = make("div", { "aria-live": "polite" });
    this.further = make("p", { class: "further", hidden: true });
    this.element = make("section", { class: "headline", "aria-label": "The answer", hidden: true }, this.lines, this.further,
      make("div", { class: "buttons" },
        button("Search", search, { title: "Search a better order of passes, with a lower bound" }),
        button("Export", share, { title: "A link, pictures, figures, orders, the command line, Python" }),
        button("Plan", plan, { title: "Which set-up trains a model on which machines" })));
    state.listen((changed) => { if (changed.has("scenario") || changed.has("found")) this.found(); });
  }
  /** Shows the headlines of `answer`, one for each setting. */
  take({ headlines, points }) {
    this.element.hidden = headlines.length === 0;
    this.lines.replaceChildren(...headlines.map((one) => line(one, points)));
    this.found();
  }
  // What a search of this very question has found, once there was one.
  found() {
    const { found, scenario } = state.now;
    this.further.hidden = found?.scenario !== scenario;
    if (!this.further.hidden) this.further.textContent = sought(found.result);
  }
}

/** The headline `one`, which names its best among `points`. */
function line({ setting, best, limited }, points) {
  const where = setting ? `${setting}: ` : "";
  if (best === null) return make("p", { class: "lead" }, `${where}None of these schedules fits the memory.`);
  const { schedule, bubble, memory, limit, faster } = points[best];
  const facts = [`${bubble[1]} bubble`, `peak ${short(memory[1])}${limit ? ` of ${short(limit)}` : ""}`,
    faster === null || schedule === "1f1b" ? null : faster >= 1 ? `${times(faster)} as fast as 1f1b` : `slower than 1f1b (${times(faster)})`];
  return make("p", { class: "lead" }, `${where}${limited ? "Best that fits" : "Best"}: `, make("strong", {}, schedule),
    `, ${facts.filter(Boolean).join(", ")}.`);
}

/** What the search `result` says: its bubble, and the bound. */
export function sought({ bubble_rate: rate, bound_rate: bound, chunks, placement, gap_ns: gap }) {
  const of = chunks > 1 ? `${chunks} chunks per stage (${placement})` : "one chunk per stage";
  const least = gap === 0 ? "no such order is below that" : `no such order is below ${percent(bound)}`;
  return `A search with ${of} finds ${percent(rate)}; ${least}.`;
}
