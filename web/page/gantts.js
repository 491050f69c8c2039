// The timelines of the schedules, with the bar that moves and zooms them.

import { Charts, key, legend } from "page/charts.js";
import { button, make } from "page/dom.js";
import * as theme from "page/theme.js";

/** The colours of charts on a dark page. */
const DARK = { ink: "#e8e8e8", paper: "#16181c", faint: "#9a9a9a", mark: "#ff9a80", optimizer: "#6a6f78",
  area: "#2b3a52", curve: "#9dbcf0", idle: "#2a2e36", shade: 0.4 };

/** The timelines; `looked` is called when another part of them is shown, or another microbatch is sought. */
export class Gantts {
  constructor(looked) {
    const tip = make("div", { id: "tip", class: "tip" }), said = make("p", { class: "unseen", "aria-live": "polite" });
    this.range = make("span", { class: "range" });
    this.narrow = make("p", { class: "narrow" });
    this.legend = make("span", { class: "legend" });
    this.root = make("div", { class: "charts" });
    this.where = make("div", { class: "wide", tabIndex: 0, role: "region", "aria-label": "Where time goes" });
    this.note = make("p", { class: "help" });
    this.links = make("input", { type: "checkbox" });
    this.links.addEventListener("change", () => {
      this.charts.options.links = this.links.checked;
      if (this.last) this.take(this.last);
    });
    this.element = make("div", { class: "gantts" }, this.bar(), this.root, this.narrow, this.note, this.where, said);
    document.body.append(tip);
    this.charts = new Charts(this.root, {
      tip, said, links: false,
      shown: (range, narrow) => {
        this.range.textContent = range;
        this.narrow.textContent = narrow;
        looked(this.look());
      },
      // A wheel without a key scrolls the page.
      zooms: (event) => event.ctrlKey || event.metaKey || event.shiftKey,
    });
    theme.listen((dark) => { this.dark = dark; this.charts.paint(dark ? DARK : {}); this.key(); });
  }
  bar() {
    const find = this.find = make("input", { type: "number", min: "0", placeholder: "all", class: "short" });
    find.addEventListener("input", () => this.seek());
    const title = "Also: Ctrl or Shift and the wheel; drag to pan; in a chart, the keys + - 0 and arrows";
    return make("div", { class: "bar" },
      button("+", () => this.charts.zoom(0.5), { "aria-label": "Zoom in", title }),
      button("−", () => this.charts.zoom(2), { "aria-label": "Zoom out", title }),
      button("Whole step", () => this.charts.fit()),
      make("label", {}, "microbatch ", find), make("label", {}, this.links, "transfers"), this.range, this.legend);
  }
  seek() { this.charts.find(this.find.value === "" ? null : Number(this.find.value)); }
  /** The part of the time that is shown, unless it is all, and the microbatch that is sought. */
  look() {
    const { view: [begin, end], end: last } = this.charts, whole = begin === 0 && end === (last || 1);
    return { from: whole ? null : Math.round(begin), to: whole ? null : Math.round(end), microbatch: this.find.value };
  }
  /** Shows what `look` has told. @param {Record<string, string>} look */
  see({ from, to, microbatch }) {
    this.find.value = microbatch ?? "";
    this.seek();
    const [begin, end] = [Number(from), Number(to)];
    if (to && end > begin) this.charts.show(begin, end);
    else this.charts.fit();
  }
  key() {
    if (this.last) legend(this.legend, this.last, this.dark ? DARK.idle : this.last.idle);
  }
  /** Draws `drawing`, or says why there is none. */
  take(drawing, why = "") {
    this.root.hidden = !drawing;
    this.note.textContent = drawing ? drawing.left_out || "" : why || "";
    if (!drawing) return;
    this.last = drawing;
    this.charts.take(drawing);
    this.key();
    const known = drawing.charts.filter((chart) => chart.idle);
    this.where.classList.toggle("stale", known.length === 0);
    if (known.length === 0) return;
    this.note.textContent = drawing.axis;
    this.where.replaceChildren(whereTimeGoes(known, this.charts.tiles));
  }
}

/**
 * A table of what the average stage of each of `charts` does with its time, with the hatchings `tiles` of the
 * causes: a column for each use of time that any of them has.
 */
function whereTimeGoes(charts, tiles) {
  const uses = new Map();
  charts.forEach(({ idle }) => idle.keys.forEach((use) => uses.set(use.name, use)));
  const order = (one) => (one.cause === null ? -1 : one.cause);
  const columns = [...uses.values()].toSorted((a, b) => order(a) - order(b));
  const head = ({ name, cause }) => make("th", { scope: "col" },
    cause !== null || name === "optimizer" ? key(cause === null ? null : tiles[cause]) : null, name);
  const row = ({ name, idle }) => {
    const of = (column) => idle.keys.find((use) => use.name === column.name);
    const cell = (use) => make("td", { title: use?.time }, use ? use.share : "");
    const cells = idle.note
      ? [make("td", { colSpan: columns.length }, `causes are not known: ${idle.note}`)]
      : columns.map((column) => cell(of(column)));
    return make("tr", {}, make("th", { scope: "row" }, name), ...cells);
  };
  return make("table", { class: "figures" },
    make("caption", {}, "Where the time of the average stage goes, of the step"),
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "schedule"), ...columns.map(head))),
    make("tbody", {}, ...charts.map(row)));
}
