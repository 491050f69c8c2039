// The figures of schedules side by side: a table to sort, those that are refused, and notes.

import { button, make, sheet } from "page/dom.js";

/** What of a result a column of the table shows. */
const WORTH = {
  p: (one) => one.stages, m: (one) => one.microbatches, v: (one) => one.chunks, span: (one) => one.span_ns,
  bubble: (one) => one.bubble_rate, makespan: (one) => one.makespan_ns,
  "bubble/makespan": (one) => one.bubble_rate_makespan, fits: (one) => (one.fits ? 0 : 1),
  front: (one) => (one.on_front ? 0 : 1), "noise-free span": (one) => one.noise_free?.span_ns,
  "noise-free bubble": (one) => one.noise_free?.bubble_rate, compute: (one) => one.compute_utilisation,
  hidden: (one) => one.communication_hidden,
};

/** The columns that stand first: what most ask for. */
const FIRST = ["setting", "schedule", "span", "bubble", "peak memory", "fits", "front", "noise-free bubble"];

/** The places of the columns `header` in the order in which they are shown. */
function order(header) {
  const rank = (at) => (FIRST.includes(header[at]) ? FIRST.indexOf(header[at]) : FIRST.length);
  return [...header.keys()].toSorted((a, b) => rank(a) - rank(b));
}

/** The table of an answer. `why` is called with the schedule whose waiting is to be explained. */
export class Results {
  constructor(why) {
    this.why = why;
    this.by = null;
    this.table = make("div", { class: "wide results", tabIndex: 0, role: "region", "aria-label": "Schedules side by side" });
    this.refused = make("div");
    this.notes = make("ul", { class: "notes" });
    this.more = make("details", { class: "box" }, make("summary", {}, "Memory of each stage, and more"));
    this.rest = make("div");
    this.more.append(this.rest);
    this.element = make("div", {}, this.table, this.refused, this.notes, this.more);
  }
  /** Shows `answer`. */
  take(answer) {
    this.answer = answer;
    this.draw();
    const refused = (answer.refused || []).map(({ schedule, setting, reason }) =>
      make("tr", {}, make("td", {}, setting ? `${schedule}, ${setting}` : schedule), make("td", {}, reason)));
    const table = make("table", { class: "words" }, make("caption", {}, "Not simulated"), make("tbody", {}, ...refused));
    this.refused.replaceChildren(...(refused.length ? [table] : []));
    this.notes.replaceChildren(...answer.warnings.map((note) => make("li", {}, note)));
    // The refused ones stand above already.
    const rest = answer.sheet.slice(1).filter((part) => typeof part !== "string");
    this.rest.replaceChildren(...sheet(rest));
    this.more.hidden = rest.length === 0;
  }
  draw() {
    const [first] = this.answer.sheet;
    const rows = first.rows.map((cells, at) => ({ cells, result: this.answer.results[at], point: this.answer.points[at] }));
    const places = order(first.header);
    const [name, ...names] = places.map((at) => this.head(first.header[at], at));
    const head = make("tr", {}, name, make("th", { scope: "col" }, "causes"), ...names);
    const body = this.sorted(rows).map((row) => this.row(first.header, places, row));
    const table = make("table", { class: "figures" }, make("caption", { class: "unseen" }, "Schedules side by side"),
      make("thead", {}, head), make("tbody", {}, ...body));
    this.table.replaceChildren(table);
  }
  head(name, at) {
    const up = this.by?.at === at ? (this.by.up ? "ascending" : "descending") : null;
    const act = () => {
      this.by = { at, up: this.by?.at === at ? !this.by.up : true };
      this.draw();
      /** @type {HTMLElement} */ (this.table.querySelector(`[aria-sort] button`))?.focus();
    };
    return make("th", { scope: "col", "aria-sort": up }, button(name, act, { title: `Sort by ${name}` }));
  }
  row(header, places, { cells, result, point }) {
    const cell = (at) => make(at === 0 ? "th" : "td", {
      scope: at === 0 ? "row" : undefined, class: header[at] === "fits" && result.fits === false ? "no" : undefined }, cells[at]);
    const [name, ...words] = places.map(cell);
    const ask = button("Why?", () => this.why(point), { "aria-label": `Why does ${point.title} wait?` });
    return make("tr", {}, name, make("td", {}, ask), ...words);
  }
  sorted(rows) {
    if (!this.by) return rows;
    const { at, up } = this.by, name = this.answer.sheet[0].header[at];
    const worth = { ...WORTH, "peak memory": (_, point) => point.memory[0], "peak/M_B": (one) => Math.max(...one.peak_in_flight) / one.chunks }[name];
    const value = ({ cells, result, point }) => (worth ? worth(result, point) : cells[at]);
    const order = (a, b) => (typeof a === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));
    return rows.toSorted((a, b) => (up ? 1 : -1) * order(value(a), value(b)));
  }
}
