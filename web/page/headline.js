// The answer of “Play” in a line, and where to go from it.

import { button, make } from "page/dom.js";
import { figures } from "page/results.js";
import * as state from "page/state.js";
import { percent } from "page/words.js";

/** The card; its buttons search, share, plan, and show a schedule. */
export class Headline {
  constructor({ search, share, plan, show }) {
    this.show = show;
    this.lines = make("div", { "aria-live": "polite" });
    this.further = make("p", { class: "further", hidden: true });
    this.element = make("section", { class: "headline", "aria-label": "The answer", hidden: true }, this.lines, this.further,
      make("div", { class: "buttons" },
        button("Search", search, { title: "Search a better order of passes, with a lower bound" }),
        button("Export", share, { title: "A link, pictures, figures, orders, the command line, Python" }),
        button("Plan", plan, { title: "Which set-up trains a model on which machines" })));
    state.listen((changed) => { if (changed.has("scenario") || changed.has("found")) this.found(); });
  }
  /** Shows the headline of `answer`, about the schedules that are shown. */
  take(answer) {
    this.shown = answer.points.map((one) => one.schedule);
    this.say(answer.headline, figures(answer).best.map((at) => this.shown[at]));
    this.found();
  }
  /** Shows the headline about all schedules that apply, whose best are `best`. */
  widen({ headline, best }) {
    this.say(headline, best);
    const hidden = best.filter((name, at) => !this.shown.includes(name) && best.indexOf(name) === at);
    this.lines.append(...hidden.map((name) => button(`Show ${name}`, () => this.show(name))));
  }
  say(headline, best) {
    this.element.hidden = headline === "";
    this.lines.replaceChildren(...headline.split("\n").map((one, at) => line(one, best[at])));
  }
  // What a search of this very question has found, once there was one.
  found() {
    const { found, scenario } = state.now;
    this.further.hidden = found?.scenario !== scenario;
    if (!this.further.hidden) this.further.textContent = sought(found.result);
  }
}

/** The sentence `one`, which says that `best` is the best. */
function line(one, best) {
  const at = best ? one.indexOf(best) : -1;
  return make("p", { class: "lead" }, ...(at < 0 ? [one]
    : [one.slice(0, at), make("strong", {}, best), one.slice(at + best.length)]));
}

/** What the search `result` says: its bubble, and the bound. */
export function sought({ bubble_rate: rate, bound_rate: bound, chunks, placement, gap_ns: gap }) {
  const of = chunks > 1 ? `${chunks} chunks per stage (${placement})` : "one chunk per stage";
  const least = gap === 0 ? "no such order is below that" : `no such order is below ${percent(bound)}`;
  return `A search with ${of} finds ${percent(rate)}; ${least}.`;
}
