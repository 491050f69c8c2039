// The whole step in a strip above the timelines, with the part of it that they show.

import { make } from "page/dom.js";

/** More passes than this are not drawn in the strip: it has no room for them. */
const MOST = 20_000;
/** Pixels that the pointer must move before it draws a window, the height of the strip, and milliseconds of rest
 *  before it is drawn. */
const MOVED = 3, TALL = 34, REST = 100;

/** The strip over `charts`: the window in it is dragged, or drawn anew. */
export class Overview {
  constructor(charts) {
    this.charts = charts;
    this.base = document.createElement("canvas");
    this.canvas = make("canvas", { class: "overview", role: "img" });
    this.canvas.setAttribute("aria-label", "The whole step: drag to choose the part that is shown");
    const on = (kind, act) => this.canvas.addEventListener(kind, act);
    on("pointerdown", (event) => this.take(event));
    on("pointermove", (event) => { if (this.drag) this.move(event); });
    on("pointerup", (event) => this.drop(event));
    on("pointercancel", () => { this.drag = null; });
    this.element = make("div", { class: "strip" }, this.canvas);
    // To ask for the width is slow.
    new ResizeObserver(([{ contentRect }]) => {
      this.wide = contentRect.width;
      this.paint();
    }).observe(this.canvas);
  }
  // Left edge and width of the time axis, which is that of the timelines.
  axis() {
    const [first] = this.charts.charts;
    return first?.wide ? [first.left, first.width()] : [0, this.wide ?? 0];
  }
  time(x) {
    const [left, wide] = this.axis();
    return Math.min(Math.max((x - left) / wide, 0), 1) * (this.charts.end || 1);
  }
  x(time) {
    const [left, wide] = this.axis();
    return left + time / (this.charts.end || 1) * wide;
  }
  take(event) {
    const time = this.time(event.offsetX), [begin, end] = this.charts.view;
    const whole = begin <= 0 && end >= this.charts.end;
    this.drag = { x: event.offsetX, time, view: this.charts.view, grip: !whole && begin <= time && time <= end };
    this.canvas.setPointerCapture(event.pointerId);
  }
  move(event) {
    const { x, time, view: [begin, end], grip } = this.drag, now = this.time(event.offsetX);
    if (Math.abs(event.offsetX - x) < MOVED) return;
    if (grip) this.charts.show(begin + now - time, end + now - time);
    else this.charts.show(Math.min(time, now), Math.max(time, now));
  }
  // A click beside the window moves it there.
  drop(event) {
    const { x, time, view: [begin, end], grip } = this.drag || {};
    this.drag = null;
    if (grip !== false || Math.abs(event.offsetX - x) >= MOVED) return;
    this.charts.show(time - (end - begin) / 2, time + (end - begin) / 2);
  }
  /** Draws the passes anew, and the window, once the timelines rest, whose axis it takes. */
  paint() {
    clearTimeout(this.pending);
    this.pending = setTimeout(() => this.draw(), REST);
  }
  draw() {
    const ratio = devicePixelRatio || 1;
    if (!this.wide) return;
    for (const one of [this.base, this.canvas]) Object.assign(one, { width: this.wide * ratio, height: TALL * ratio });
    const pen = this.base.getContext("2d"), [first] = this.charts.charts;
    pen.scale(ratio, ratio);
    const rows = first?.rows ?? [], [left, across] = this.axis(), high = (TALL - 4) / Math.max(rows.length, 1);
    pen.fillStyle = this.charts.theme.idle || this.charts.idle || "#fff";
    pen.fillRect(left, 2, across, TALL - 4);
    if (rows.length && rows.reduce((sum, row) => sum + row.spans.length, 0) <= MOST) {
      rows.forEach((row, at) => row.spans.forEach((span) => {
        pen.fillStyle = this.charts.fills[span[5]][0];
        pen.fillRect(this.x(span[0]), 2 + at * high, this.x(span[1]) - this.x(span[0]), Math.max(high - 0.5, 0.5));
      }));
    }
    this.window();
  }
  /** Draws the window over the passes. */
  window() {
    const pen = this.canvas.getContext("2d"), { theme, view, end } = this.charts;
    const ratio = devicePixelRatio || 1, [left, across] = this.axis();
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (this.base.width) pen.drawImage(this.base, 0, 0);
    pen.scale(ratio, ratio);
    const [from, to] = view.map((time) => Math.min(Math.max(this.x(time), left), left + across));
    pen.globalAlpha = 0.65;
    pen.fillStyle = theme.paper;
    pen.fillRect(left, 0, from - left, TALL);
    pen.fillRect(to, 0, left + across - to, TALL);
    pen.globalAlpha = 1;
    pen.strokeStyle = theme.ink;
    pen.lineWidth = 1.5;
    if (view[0] > 0 || view[1] < end) pen.strokeRect(from + 1, 1, Math.max(to - from - 2, 2), TALL - 2);
  }
}
