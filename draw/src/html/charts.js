// Charts one below the other on one time axis: their view, what is pointed at, and their data.

// The colours beside those of causes. Where `passes` and `letters` are given, they stand in place of those of
// the data.
const LIGHT = { ink: "#222", paper: "#fff", faint: "#777", mark: "#8a1c00", optimizer: "#444",
  area: "#c9d8ea", curve: "#1b3a6b", idle: null, shade: 0, hatch: "#fff", passes: null, letters: null };

// How long the charts must rest before those off the screen are drawn, in milliseconds, and how many are.
const REST = 200, MOST_DRAWN = 24;

// Each cause has a hatching of its own beside its colour, to be told apart from passes, and in grey:
// lines from corner to corner, and none for what is left in the end.
const HATCHES = { "stragglers, jitter": [[0, 0, 8, 8], [0, 8, 8, 0]], "synchronisation": [[0, 8, 8, 0]],
  "memory waits": [[0, 4, 8, 4]], "shared links": [[4, 0, 4, 8]], "communication": [[0, 0, 8, 8]],
  "communication not hidden": [[0, 0, 8, 8], [0, 4, 8, 4]], "unequal stages": [[0, 4, 8, 4], [4, 0, 4, 8]] };

// A tile of `colours`, one over the other, with `lines` of the colour `hatch`.
function hatched(colours, lines, hatch, width) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  for (const colour of colours) {
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 8, 8);
  }
  pen.strokeStyle = hatch;
  pen.lineWidth = width;
  for (const [a, b, c, d] of lines) {
    pen.beginPath();
    pen.moveTo(a, b);
    pen.lineTo(c, d);
    pen.stroke();
  }
  return tile;
}

// The hatching of the cause `name`, which has that `colour`.
function tile(name, colour, { shade, hatch }) {
  return hatched([colour, `rgba(0, 0, 0, ${shade})`], HATCHES[name] || [], hatch, 1.2);
}

/**
 * Charts in the element `root`. `options.tip` is the element that says what is pointed at, `options.said` one
 * that is read aloud, `options.shown` is told the view and how many passes are too narrow to be seen,
 * `options.zooms` says whether a turn of the wheel zooms, `options.legend` whether there is a table of where
 * time goes over each timeline, and `options.memory` and `options.links` whether these have charts.
 * `options.beside` fills the element beside each timeline, `options.selected` is told the chart and the words of
 * the pass that was chosen, and `options.keys` shows which keys there are.
 */
export class Charts {
  constructor(root, options) {
    Object.assign(this, { root, options, view: [0, 1], wanted: null, theme: LIGHT, scale: 1 });
    Object.assign(this, { end: 0, causes: [], tiles: [], colours: [], letters: [], fills: [], charts: [] });
    this.zooms = options.zooms || (() => true);
    addEventListener("scroll", () => requestAnimationFrame(() => this.drawStale()), { passive: true });
    addEventListener("beforeprint", () => this.drawAll());
    new ResizeObserver(() => this.draw()).observe(root);
  }
  /** Takes the colours of `theme` in place of the light ones. */
  paint(theme) {
    this.theme = { ...LIGHT, ...theme };
    this.mix();
    this.draw();
  }
  // Makes what passes and causes are filled with, unless that is made already.
  mix() {
    const { data, theme } = this, mixed = JSON.stringify([theme, this.causes, data?.colours]);
    if (mixed === this.mixed) return;
    this.mixed = mixed;
    this.tiles = this.causes.map(([name, colour]) => tile(name, colour, theme));
    if (!data) return;
    this.colours = theme.passes || data.colours;
    this.letters = theme.letters || data.letters;
    this.fills = this.colours;
  }
  /** Shows the timelines of `data`. A view of the whole step stays one; another is kept. */
  take(data) {
    const [begin, end] = this.view, whole = begin === 0 && end === (this.end || 1);
    const { causes, idle, communication } = data;
    Object.assign(this, { data, end: data.end, causes, idle, communication });
    this.mix();
    this.scale = Math.max(parseFloat(getComputedStyle(this.root).fontSize) / 13, 1) || 1;
    const wanted = data.charts.flatMap((chart) => this.wantedOf(chart));
    const same = wanted.length === this.charts.length &&
      wanted.every(({ kind, chart }, at) => this.charts[at] instanceof kind && this.charts[at].of === chart.name);
    if (!same || this.options.legend) this.rebuild(wanted);
    wanted.forEach(({ chart, height }, at) => this.charts[at].take(chart, height));
    const gantts = this.charts.filter((one) => one instanceof Gantt);
    gantts.forEach((one, at) => this.options.beside?.(one.side, one, at));
    this.point(null);
    if (whole) this.view = [0, this.end || 1];
    this.show(...this.view);
  }
  wantedOf(chart) {
    const rows = chart.stages.length, { memory = true, links = true } = this.options;
    const height = rows > 40 ? 10 : rows > 16 ? 14 : 20;
    const all = [{ kind: Gantt, chart, height: chart.streams ? Math.round(height * 1.6) : height }];
    if (memory && chart.memory.length) all.push({ kind: Curve, chart, height: chart.memory.length > 16 ? 16 : 28 });
    if (links && chart.transfers.length) all.push({ kind: Links, chart, height: chart.transfers.length > 32 ? 7 : 12 });
    return all;
  }
  rebuild(wanted) {
    this.root.replaceChildren();
    this.charts = wanted.map(({ kind, chart }) => {
      if (kind === Gantt && this.options.legend && chart.idle) this.root.append(whereTimeGoes(chart, this.tiles));
      const one = new kind(this, chart.name);
      one.of = chart.name;
      if (this.options.beside) this.widen(one);
      this.root.append(one.element);
      return one;
    });
  }
  // Makes room beside the chart `one`.
  widen(one) {
    one.side = document.createElement("div");
    one.side.className = "beside";
    one.element = document.createElement("div");
    one.element.className = "chart";
    one.element.append(one.canvas, one.side);
  }
  /** Does what the key `key` is for, if it is for all charts. */
  key(key) {
    const long = this.view[1] - this.view[0];
    const move = (share) => this.show(this.view[0] + share * long, this.view[1] + share * long);
    const act = { "+": () => this.zoom(0.5), "-": () => this.zoom(2), w: () => this.zoom(0.5), s: () => this.zoom(2),
      a: () => move(-0.25), d: () => move(0.25), 0: () => this.fit(), Escape: () => this.point(null),
      "?": this.options.keys }[key.length === 1 ? key.toLowerCase() : key];
    act?.();
    return Boolean(act);
  }
  /** Says what is pointed at in `chart`, for longer than it is pointed at. */
  select(chart) {
    const { cursor } = chart;
    if (cursor) this.options.selected?.(chart, chart.lines);
  }
  /** Shows the time from `begin` to `end`. */
  show(begin, end) {
    this.view = [begin, end];
    // Many moves of the mouse are drawn once.
    if (!this.pending) requestAnimationFrame(() => this.draw());
    this.pending = true;
  }
  /** Shows the whole step. */
  fit() { this.show(0, this.end || 1); }
  /** Shows `factor` times as much time, with the moment `around` where it is. */
  zoom(factor, around = (this.view[0] + this.view[1]) / 2) {
    const [begin, end] = this.view;
    const length = Math.min(Math.max((end - begin) * factor, 10), 4 * (this.end || 1));
    const share = (around - begin) / (end - begin);
    this.show(around - share * length, around + (1 - share) * length);
  }
  /** Makes all passes faint but those of `microbatch`; of null, none. */
  find(microbatch) {
    this.wanted = microbatch;
    this.draw();
  }
  /** Draws all charts on the screen. */
  draw() {
    this.pending = false;
    this.charts.forEach((chart) => chart.draw());
    this.tell();
    clearTimeout(this.resting);
    if (this.charts.length <= MOST_DRAWN) this.resting = setTimeout(() => this.drawNext(), REST);
  }
  // Draws what is off the screen, chart by chart, for those who print the page or take a picture of all of it.
  drawNext() {
    const next = this.charts.find((chart) => chart.stale && chart.canvas.clientWidth > 0);
    if (!next) return;
    next.draw(true);
    this.resting = setTimeout(() => this.drawNext());
  }
  /** Draws all charts, those off the screen, too. */
  drawAll() {
    clearTimeout(this.resting);
    this.charts.forEach((chart) => chart.draw(true));
  }
  // Draws what has come onto the screen.
  drawStale() {
    const stale = this.charts.filter((chart) => chart.stale);
    stale.forEach((chart) => chart.draw());
    if (stale.some((chart) => !chart.stale)) this.tell();
  }
  tell() {
    const narrow = this.charts.reduce((sum, chart) => sum + (chart.stale ? 0 : chart.narrow || 0), 0);
    this.options.shown?.(text(this.view[0]) + " to " + text(this.view[1]), narrow
      ? narrow + " passes are narrower than a pixel: where most are, each pixel shows what runs in the " +
        "middle of its time; zoom in to see them"
      : "");
  }
  // Says what is at `target`, beside the place `x`, `y` of the window, and aloud if `aloud`.
  point(target, x, y, aloud = false) {
    const { tip, said } = this.options, before = this.pointed;
    this.pointed = target?.chart || null;
    const cursor = target?.chart.cursor;
    if (before && before !== this.pointed && before.cursor) {
      before.cursor = null;
      before.draw();
    }
    const lines = target ? target.chart.hover(target.row, target.time) : null;
    const now = target?.chart.cursor;
    if (target && (cursor?.row !== now?.row || cursor?.at !== now?.at)) target.chart.draw();
    tip.style.display = lines ? "block" : "none";
    if (!lines) return;
    target.chart.lines = lines;
    tip.textContent = lines.join("\n");
    if (aloud && said) said.textContent = lines.join(". ");
    const side = x > innerWidth / 2;
    tip.style.left = side ? "" : x + 14 + "px";
    tip.style.right = side ? Math.max(innerWidth - x + 14, 0) + "px" : "";
    tip.style.top = Math.max(Math.min(y + 14, innerHeight - tip.offsetHeight - 8), 0) + "px";
  }
}

// A table of what the average stage of `chart` does with its time: the totals of its gaps, with the hatchings
// `tiles` of the causes.
function whereTimeGoes(chart, tiles) {
  const table = document.createElement("table");
  table.className = "why";
  const cell = (row, kind, label) => {
    const one = document.createElement(kind);
    one.textContent = label;
    row.append(one);
    return one;
  };
  const names = table.insertRow(), times = table.insertRow(), shares = table.insertRow();
  cell(names, "th", "where time goes, " + chart.name);
  cell(times, "th", "average stage");
  cell(shares, "th", "of the " + (chart.releases.length > 1 ? "last " : "") + "step, " +
    text(chart.idle.cost));
  for (const { name, cause, time, share } of chart.idle.keys) {
    const head = cell(names, "th", name);
    if (cause !== null || name === "optimizer") head.prepend(key(cause === null ? null : tiles[cause]));
    cell(times, "td", time);
    cell(shares, "td", share);
  }
  if (chart.idle.note) cell(table.insertRow(), "td", "causes are not known: " + chart.idle.note);
  return table;
}

/** A sample of the hatching `tile`, or of the optimizer's colour. */
export function key(tile) {
  const key = document.createElement("canvas");
  key.className = "key";
  key.width = key.height = 12;
  const pen = key.getContext("2d");
  pen.fillStyle = tile ? pattern(tile) : LIGHT.optimizer;
  pen.fillRect(0, 0, 12, 12);
  return key;
}

// What fills an area with `tile`.
function pattern(tile) { return tile.getContext("2d").createPattern(tile, "repeat"); }

export { bytes, text };

/** Puts into `element` what the colours of `data` stand for, in the colours of `theme`. */
export function legend(element, data, theme = {}) {
  const colours = theme.passes || data.colours, idle = theme.idle || data.idle;
  const swatch = (colour) => {
    const key = document.createElement("span");
    key.className = "key";
    key.style.background = colour;
    return key;
  };
  const used = KINDS.map((kind, at) => [kind, at]).filter(([, at]) => data.kinds.includes(at));
  element.replaceChildren(...used.flatMap(([kind, at]) => [swatch(colours[at][0]), kind]),
    swatch(idle), "idle; darker, with a line: a later chunk",
    ...(data.communication || []).flatMap((colour, at) => [swatch(colour), ["communication", "not hidden"][at]]));
}
