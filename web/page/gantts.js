// The timelines of the schedules, with the bar that moves and zooms them.

import { Charts, key, legend } from "page/charts.js";
import { button, make } from "page/dom.js";
import { Overview } from "page/overview.js";
import { peaks, scale } from "page/peaks.js";
import * as theme from "page/theme.js";

/** The colours of charts on a dark page: passes stand out, and idle time does not. */
const DARK = { ink: "#e8e8e8", paper: "#16181c", faint: "#9a9a9a", mark: "#ff9a80", optimizer: "#6a6f78",
  area: "#2b3a52", curve: "#9dbcf0", idle: "#22262d", shade: 0.66, hatch: "rgba(255, 255, 255, 0.3)",
  passes: [["#5b9fe0", "#4a8ccb"], ["#e39245", "#cf7f33"], ["#45c39b", "#36ad87"], ["#e0705c", "#c95f4c"],
    ["#c58fd6", "#c58fd6"], ["#a99af0", "#a99af0"], ["#e08aa8", "#e08aa8"]],
  letters: Array(7).fill("#101214") };

/** The most timelines that are drawn before somebody asks for all. */
const MOST = 12;

/** What keys and the pointer do in timelines. */
const KEYS = [["W, S or +, −", "zoom in and out"], ["A, D", "move to earlier and later"], ["0", "show the whole step"],
  ["arrow keys", "go from pass to pass, and from stage to stage"], ["Home, End", "go to the first and last pass"],
  ["Enter", "go to the pass that this one waited for"], ["Esc", "hide what is said of a pass"],
  ["click", "keep what is said of a pass below the timeline"], ["drag", "move; in the strip above, choose a part"],
  ["Ctrl or Shift and the wheel", "zoom"], ["?", "show these keys"]];

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
      this.again();
    });
    this.rest = make("p", { class: "rest", hidden: true });
    this.selected = make("section", { class: "box selected", hidden: true, "aria-label": "The selected pass" });
    this.keys = keys();
    /** By timeline, the memory of its stages, and the full width of their bars. */
    this.points = null;
    this.most = 1;
    document.body.append(tip);
    this.charts = new Charts(this.root, {
      tip, said, links: false,
      shown: (range, narrow) => {
        this.range.textContent = range;
        this.narrow.textContent = narrow;
        this.overview?.window();
        looked(this.look());
      },
      // A wheel without a key scrolls the page.
      zooms: (event) => event.ctrlKey || event.metaKey || event.shiftKey,
      beside: (element, chart, at) => {
        if (this.points) peaks(element, chart, this.points[at], this.most);
      },
      selected: (chart, lines) => this.select(chart, lines),
      keys: () => this.keys.showModal(),
    });
    this.overview = new Overview(this.charts);
    // It says what is grey behind the last pass, which is the first thing that is asked of the charts.
    this.element = make("div", { class: "gantts" }, this.bar(), this.note, this.overview.element, this.root, this.rest, this.narrow,
      this.where, said, this.keys);
    theme.listen((dark) => {
      this.dark = dark;
      this.charts.paint(dark ? DARK : {});
      this.overview.paint();
      this.key();
    });
    addEventListener("keydown", (event) => this.pressed(event));
    addEventListener("beforeprint", () => {
      this.charts.paint({});
      this.charts.drawAll();
    });
    addEventListener("afterprint", () => this.charts.paint(this.dark ? DARK : {}));
  }
  bar() {
    const find = this.find = make("input", { type: "number", min: "0", placeholder: "all", class: "short" });
    find.addEventListener("input", () => this.seek());
    this.tools = make("span", { class: "tools" });
    return make("div", { class: "bar" },
      button("+", () => this.charts.zoom(0.5), { "aria-label": "Zoom in", title: "W" }),
      button("−", () => this.charts.zoom(2), { "aria-label": "Zoom out", title: "S" }),
      button("Whole step", () => this.charts.fit(), { title: "0" }),
      make("label", {}, "microbatch ", find), make("label", {}, this.links, "transfers"),
      button("Keys", () => this.keys.showModal(), { title: "?" }), this.tools, this.range, this.legend);
  }
  // Keys that go to no other element move the timelines, too.
  pressed(event) {
    const free = document.activeElement === document.body && this.element.checkVisibility();
    if (!free || event.ctrlKey || event.metaKey || event.altKey || event.key === "Escape") return;
    if (this.charts.key(event.key)) event.preventDefault();
  }
  seek() { this.charts.find(this.find.value === "" ? null : Number(this.find.value)); }
  /** The part of the time that is shown, unless it is all, and the microbatch that is sought. */
  look() {
    const { view: [begin, end], end: last } = this.charts, whole = begin === 0 && end === (last || 1);
    return { from: whole ? null : Math.round(begin), to: whole ? null : Math.round(end), microbatch: this.find.value };
  }
  /** Shows the picture that `look` asks for. @param {Record<string, string>} look */
  see({ from, to, microbatch }) {
    this.find.value = microbatch ?? "";
    this.seek();
    const [begin, end] = [Number(from), Number(to)];
    if (to && end > begin) this.charts.show(begin, end);
    else this.charts.fit();
  }
  /** Puts the focus on the first timeline. */
  enter() { this.charts.charts[0]?.canvas.focus(); }
  // Says what colours stand for, unless that is said already.
  key() {
    if (!this.last) return;
    const { kinds, communication } = this.last.drawing, said = JSON.stringify([this.dark, kinds, communication]);
    if (said === this.legend.dataset.said) return;
    this.legend.dataset.said = said;
    legend(this.legend, this.last.drawing, this.dark ? DARK : {});
  }
  // Keeps the words of a pass below its timeline.
  select(chart, words) {
    const [title, ...lines] = words;
    this.selected.replaceChildren(make("h3", {}, title), make("ul", {}, ...lines.map((line) => make("li", {}, line))),
      button("Go to what it waited for", () => chart.step("Enter")),
      button("Close", () => {
        this.selected.hidden = true;
        chart.canvas.focus();
      }));
    this.selected.hidden = false;
    if (this.selected.previousElementSibling !== chart.element) chart.element.after(this.selected);
  }
  /** Forgets the pass that was chosen. */
  forget() { this.selected.hidden = true; }
  again() {
    if (this.last) this.take(this.last.drawing, this.last.points);
  }
  /**
   * Draws `drawing`, of which each chart is that of one of `points`, or says why there is none: the first dozen, or
   * all where somebody has asked for them.
   */
  take(drawing, points, why = "") {
    this.root.hidden = this.overview.element.hidden = !drawing;
    this.note.textContent = drawing ? drawing.left_out || "" : why || "";
    this.rest.hidden = true;
    if (!drawing) return;
    this.last = { drawing, points };
    const count = this.whole ? drawing.charts.length : MOST, charts = drawing.charts.slice(0, count);
    this.points = points;
    this.most = scale(points);
    this.charts.take({ ...drawing, charts });
    this.overview.paint();
    this.key();
    this.more(charts.length, drawing.charts.length);
    const known = drawing.charts.filter((chart) => chart.idle);
    this.where.classList.toggle("stale", known.length === 0);
    if (known.length === 0) return;
    this.note.textContent = drawing.axis;
    this.where.replaceChildren(whereTimeGoes(known, this.charts.tiles));
  }
  more(drawn, of) {
    this.rest.hidden = drawn === of;
    this.rest.replaceChildren(`${drawn} of ${of} timelines are drawn. `, button("Draw all", () => {
      this.whole = true;
      this.again();
    }));
  }
}

/** The keys, in a box over the page. */
function keys() {
  const rows = KEYS.map(([name, does]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, does)));
  const box = /** @type {HTMLDialogElement} */ (make("dialog", { "aria-label": "Keys" }, make("h3", {}, "Keys in the timelines"),
    make("table", { class: "words" }, make("tbody", {}, ...rows))));
  box.append(button("Close", () => box.close()));
  return box;
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
