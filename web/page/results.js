// The figures of schedules side by side: a table to sort, those that are refused, and notes.

import { button, make, sheet } from "page/dom.js";

/** What of a result a column of the table shows. */
const WORTH = {
  p: (one) => one.stages, m: (one) => one.microbatches, v: (one) => one.chunks, span: (one) => one.span_ns,
  bubble: (one) => one.bubble_rate, makespan: (one) => one.makespan_ns,
  "bubble/makespan": (one) => one.bubble_rate_makespan, fits: (one) => (one.fits ? 0 : 1),
  front: (one) => (one.on_front ? 0 : 1), "noise-free span": (one) => one.noise_free?.span_ns,
  "noise-free bubble": (one) => one.noise_free?.bubble_rate,
};

/** The table of an answer. `why` is called with the schedule whose waiting is to be explained. */
export class Results {
  constructor(why) {
    this.why = why;
    this.by = null;
    this.table = make("div", { class: "wide" });
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
    const head = make("tr", {}, ...first.header.map((name, at) => this.head(name, at)), make("th", {}, ""));
    const body = this.sorted(rows).map((row) => this.row(first.header, row));
    const table = make("table", { class: "figures" }, make("caption", { class: "unseen" }, "Schedules side by side"),
      make("thead", {}, head), make("tbody", {}, ...body));
    this.table.replaceChildren(table);
  }
  head(name, at) {
    const up = this.by?.at === at ? (this.by.up ? "ascending" : "descending") : null;
    const act = () => {
      this.by = { at, up: this.by?.at === at ? !this.by.up : true };
      this.draw();
      this.table.querySelectorAll("th button")[at]?.focus();
    };
    return make("th", { scope: "col", "aria-sort": up }, button(name, act, { title: `Sort by ${name}` }));
  }
  row(header, { cells, result, point }) {
    const words = cells.map((cell, at) => make(at === 0 ? "th" : "td", {
      scope: at === 0 ? "row" : undefined, class: header[at] === "fits" && result.fits === false ? "no" : undefined }, cell));
    const ask = button("Why?", () => this.why(point), { "aria-label": `Why does ${point.title} wait?` });
    return make("tr", {}, ...words, make("td", {}, ask));
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
