// The timelines of the schedules, with the bar that moves and zooms them.

import { Charts, legend, whereTimeGoes } from "page/charts.js";
import { button, make } from "page/dom.js";
import * as theme from "page/theme.js";

/** The colours of charts on a dark page. */
const DARK = { ink: "#e8e8e8", paper: "#16181c", faint: "#9a9a9a", mark: "#ff9a80", optimizer: "#6a6f78",
  area: "#2b3a52", curve: "#9dbcf0", idle: "#2a2e36", shade: 0.4 };

/** The timelines; `links` is called when transfers are to be shown or no longer. */
export class Gantts {
  constructor() {
    const tip = make("div", { id: "tip", class: "tip" }), said = make("p", { class: "unseen", "aria-live": "polite" });
    this.range = make("span", { class: "range" });
    this.narrow = make("p", { class: "narrow" });
    this.legend = make("span", { class: "legend" });
    this.root = make("div", { class: "charts" });
    this.where = make("div", { class: "wide" });
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
      shown: (range, narrow) => { this.range.textContent = range; this.narrow.textContent = narrow; },
      // A wheel without a key scrolls the page.
      zooms: (event) => event.ctrlKey || event.metaKey || event.shiftKey,
    });
    theme.listen((dark) => { this.dark = dark; this.charts.paint(dark ? DARK : {}); this.key(); });
  }
  bar() {
    const find = make("input", { type: "number", min: 0, placeholder: "all", class: "short" });
    find.addEventListener("input", () => this.charts.find(find.value === "" ? null : Number(find.value)));
    const title = "Also: Ctrl or Shift and the wheel; drag to pan; in a chart, the keys + - 0 and arrows";
    return make("div", { class: "bar" },
      button("+", () => this.charts.zoom(0.5), { "aria-label": "Zoom in", title }),
      button("−", () => this.charts.zoom(2), { "aria-label": "Zoom out", title }),
      button("Whole step", () => this.charts.fit()),
      make("label", {}, "microbatch ", find), make("label", {}, this.links, "transfers"), this.range, this.legend);
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
    this.where.replaceChildren(...known.map((chart) => whereTimeGoes(chart, this.charts.tiles)));
  }
}
