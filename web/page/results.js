// The figures of schedules side by side: a table to sort, those that are refused, and notes.

import { button, make, sheet } from "page/dom.js";
import { GLOSSARY } from "page/glossary.js";
import { times } from "page/words.js";

/** More rows than this are sorted by the bubble. */
const MANY = 12;

/** The column of the page's own. */
const FASTER = "faster than 1f1b";

/** What of a result a column of the table shows. */
const WORTH = {
  p: (one) => one.stages, m: (one) => one.microbatches, v: (one) => one.chunks, span: (one) => one.span_ns,
  bubble: (one) => one.bubble_rate, makespan: (one) => one.makespan_ns,
  "bubble/makespan": (one) => one.bubble_rate_makespan, fits: (one) => (one.fits ? 0 : 1),
  front: (one) => (one.on_front ? 0 : 1), "noise-free span": (one) => one.noise_free?.span_ns,
  "noise-free bubble": (one) => one.noise_free?.bubble_rate, compute: (one) => one.compute_utilisation,
  hidden: (one) => one.communication_hidden, "peak memory": (_, point) => point.memory[0],
  "peak/M_B": (one) => Math.max(...one.peak_in_flight) / one.chunks, [FASTER]: (_, point) => -(point.faster ?? 0),
};

/** The columns that answer the question, in their order; the others are shown on demand. */
const FIRST = ["setting", "schedule", "bubble", "span", "peak memory", "fits", FASTER];

/** The term of the glossary that explains a column, and words of its own where no term does. */
const TERMS = { bubble: "bubble rate", "bubble/makespan": "bubble rate", "peak/M_B": "M_B", "noise-free span": "span",
  "noise-free bubble": "bubble rate", front: "Pareto front", fits: "memory limit", compute: "overlap", hidden: "overlap" };
const OWN = { schedule: "Sort by name", [FASTER]: "The span of 1f1b over the span of this schedule, for the same question",
  "on stage": "The stage that holds most", setting: "The setting of the question" };

/** What the column `name` means. */
const meaning = (name) => GLOSSARY[TERMS[name] ?? name] ?? OWN[name] ?? name;

/** Why schedules of the second group are in none. */
const APART = "Asynchronous: gradients are of older weights, so that time and memory do not compare with the rows above.";

/** The table of schedules in the sheet of `answer`. */
export const figures = (answer) => answer.sheet.find((part) => part.header);

/** The table of an answer. `why` is called with the schedule whose waiting is to be explained. */
export class Results {
  constructor(why) {
    this.why = why;
    this.by = null;
    this.all = make("input", { type: "checkbox" });
    this.all.addEventListener("change", () => this.draw());
    this.table = make("div", { class: "wide results", tabIndex: 0, role: "region", "aria-label": "Schedules side by side" });
    this.refused = make("div");
    this.notes = make("ul", { class: "notes" });
    this.more = make("details", { class: "box" }, make("summary", {}, "Memory of each stage, and more"));
    this.rest = make("div");
    this.more.append(this.rest);
    this.more.addEventListener("toggle", () => this.further());
    this.element = make("div", {}, this.table, make("label", { class: "columns" }, this.all, "all columns"),
      this.refused, this.notes, this.more);
  }
  /** Shows `answer`; of its schedules, those that fit alone where `fitting` is asked. */
  take(answer, fitting = false) {
    this.answer = answer;
    if (answer.results.length > MANY) this.by ??= { name: "bubble", up: true };
    this.fitting = fitting;
    this.draw();
    const refused = (answer.refused || []).map(({ schedule, setting, reason }) =>
      make("tr", {}, make("td", {}, setting ? `${schedule}, ${setting}` : schedule), make("td", {}, reason)));
    const table = make("table", { class: "words" }, make("caption", {}, "Not simulated"), make("tbody", {}, ...refused));
    this.refused.replaceChildren(...(refused.length ? [table] : []));
    this.notes.replaceChildren(...answer.warnings.map((note) => make("li", {}, note)));
    // The refused ones stand above already.
    this.tables = answer.sheet.filter((part) => part.header).slice(1);
    this.more.hidden = this.tables.length === 0;
    this.further();
  }
  // Makes the further tables where they are shown.
  further() {
    if (this.more.open) this.rest.replaceChildren(...sheet(this.tables));
  }
  // The rows of the answer, with the column of the page's own.
  rows() {
    const { results, points } = this.answer, first = figures(this.answer), best = new Set(first.best);
    const rows = first.rows.map((cells, at) => {
      const { faster } = points[at];
      return { cells: [...cells, faster === null ? "" : times(faster)], result: results[at], point: points[at], best: best.has(at) };
    });
    return { header: [...first.header, FASTER], rows: rows.filter(({ point }) => !this.fitting || point.fits !== false) };
  }
  // The places of the columns that are shown: without sizes, peaks are multiples of M_B.
  places(header) {
    const first = FIRST.map((name) => header.indexOf(name === "peak memory" && !header.includes(name) ? "peak/M_B" : name));
    const others = this.all.checked ? [...header.keys()].filter((at) => !first.includes(at)) : [];
    return [...first.filter((at) => at >= 0), ...others];
  }
  draw() {
    const { header, rows } = this.rows(), places = this.places(header);
    const head = make("tr", {}, ...places.map((at) => this.head(header[at])),
      make("th", { scope: "col", title: "Why the stages of a schedule wait" }, "causes"));
    const apart = rows.filter(({ point }) => point.asynchronous);
    const body = (all) => make("tbody", {}, ...this.sorted(header, all).map((row) => this.row(header, places, row)));
    const groups = [body(rows.filter(({ point }) => !point.asynchronous))];
    if (apart.length) {
      const note = make("th", { colSpan: places.length + 1, scope: "rowgroup", class: "apart" }, APART);
      groups.push(body(apart));
      groups[1].prepend(make("tr", {}, note));
    }
    this.table.replaceChildren(make("table", { class: "figures" }, make("caption", { class: "unseen" }, "Schedules side by side"),
      make("thead", {}, head), ...groups));
  }
  head(name) {
    const up = this.by?.name === name ? (this.by.up ? "ascending" : "descending") : null;
    const act = () => {
      this.by = { name, up: this.by?.name === name ? !this.by.up : true };
      this.draw();
      /** @type {HTMLElement} */ (this.table.querySelector(`[aria-sort] button`))?.focus();
    };
    return make("th", { scope: "col", "aria-sort": up }, button(name, act, { title: meaning(name) }));
  }
  row(header, places, { cells, result, point, best }) {
    const name = (at) => [make("span", { class: "name" }, cells[at]), best ? make("span", { class: "badge" }, "best") : null];
    const cell = (at) => (header[at] === "schedule"
      ? make("th", { scope: "row" }, ...name(at))
      : make("td", { class: header[at] === "fits" && result.fits === false ? "no" : undefined }, cells[at]));
    const ask = button("Why?", () => this.why(point), { "aria-label": `Why does ${point.title} wait?` });
    return make("tr", { class: best ? "taken" : undefined }, ...places.map(cell), make("td", {}, ask));
  }
  sorted(header, rows) {
    if (!this.by) return rows;
    const { name, up } = this.by, worth = WORTH[name], at = header.indexOf(name);
    const value = ({ cells, result, point }) => (worth ? worth(result, point) : cells[at]);
    const order = (a, b) => (typeof a === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));
    return rows.toSorted((a, b) => (up ? 1 : -1) * order(value(a), value(b)));
  }
}
