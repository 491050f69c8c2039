// Rows over a time axis on a canvas: what timelines, memory and transfers have in common.
class Chart {
  constructor(board, title) {
    this.board = board;
    this.title = title;
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    const on = (kind, act, options) => this.canvas.addEventListener(kind, act, options);
    on("wheel", (event) => this.wheel(event), { passive: false });
    on("pointerdown", (event) => {
      const { view } = board;
      this.drag = { x: event.offsetX, view, moved: false };
      this.canvas.setPointerCapture(event.pointerId);
    });
    on("pointerup", (event) => {
      const tapped = this.drag && !this.drag.moved;
      this.drag = null;
      if (tapped) {
        this.point(event);
        board.select(this);
      }
    });
    on("pointercancel", () => { this.drag = null; });
    on("pointerleave", () => board.point(null));
    on("pointermove", (event) => (this.drag ? this.pan(event) : this.point(event)));
    on("keydown", (event) => { if (this.key(event)) event.preventDefault(); });
    on("blur", () => board.point(null));
    // The chart with what stands beside it, if anything does.
    this.element = this.canvas;
  }
  // Takes rows, each `height` high.
  fill(rows, height) {
    this.rows = rows;
    this.height = Math.round(height * this.board.scale);
    const label = `${this.title}: ${this.describe()}. Arrow keys go from one to the next, W and S zoom, A and D move.`;
    this.canvas.setAttribute("aria-label", label);
    this.top = Math.round(46 * this.board.scale);
    const tall = this.tall() + "px";
    if (this.canvas.style.height !== tall) this.canvas.style.height = tall;
  }
  describe() { return this.rows.length + " rows"; }
  // Takes the size that the canvas has on the screen: to ask for it is slow.
  measure() {
    this.wide = this.canvas.clientWidth;
    this.left = Math.round((this.wide < 560 ? 26 : 84) * this.board.scale);
    this.top = Math.round(46 * this.board.scale);
  }
  width() { return Math.max(this.wide - this.left - 12, 1); }
  x(time) {
    const [begin, end] = this.board.view;
    return this.left + (time - begin) / (end - begin) * this.width();
  }
  time(x) {
    const [begin, end] = this.board.view;
    return begin + (x - this.left) / this.width() * (end - begin);
  }
  wheel(event) {
    if (!this.board.zooms(event)) return;
    event.preventDefault();
    this.board.zoom(Math.exp(event.deltaY * 0.0015), this.time(event.offsetX));
  }
  pan(event) {
    const { x, view: [begin, end] } = this.drag;
    if (Math.abs(event.offsetX - x) > 2) this.drag.moved = true;
    const shift = (event.offsetX - x) / this.width() * (end - begin);
    this.board.show(begin - shift, end - shift);
  }
  // Says what is under the pointer.
  point(event) {
    const at = Math.floor((event.offsetY - this.top) / this.height);
    const row = event.offsetX >= this.left ? this.rows[at] : undefined;
    const time = this.time(event.offsetX);
    this.board.point(row ? { chart: this, row, time } : null, event.clientX, event.clientY);
  }
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    return this.board.key(event.key) || this.step(event.key);
  }
  step() { return false; }
  tall() { return this.top + this.rows.length * this.height + 8; }
  font(size, weight = "") { return `${weight} ${size * this.board.scale}px sans-serif`; }
  // Draws the chart if it is on the screen or near it, or if `all` are to be drawn.
  draw(all = false) {
    const box = this.canvas.getBoundingClientRect();
    this.stale = box.width === 0 || (!all && (box.bottom < -300 || box.top > innerHeight + 300));
    if (this.stale) return;
    this.measure();
    const ratio = this.ratio = devicePixelRatio || 1, { ink } = this.board.theme;
    const wide = Math.round(this.wide * ratio), tall = Math.round(this.tall() * ratio);
    if (this.canvas.width !== wide) this.canvas.width = wide;
    if (this.canvas.height !== tall) this.canvas.height = tall;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.wide, this.tall());
    pen.textBaseline = "middle";
    pen.font = this.font(12, "bold");
    pen.fillStyle = ink;
    pen.fillText(this.title, 8, this.top * 0.26);
    this.narrow = 0;
    this.axis(pen);
    this.rows.forEach((row, at) => this.row(pen, row, at));
    this.mark(pen);
  }
  row(pen, row, at) {
    const top = this.top + at * this.height;
    pen.font = Math.min(11 * this.board.scale, this.height) + "px sans-serif";
    pen.fillStyle = this.board.theme.ink;
    const label = this.left < 60 ? row.short : row.name;
    if (this.height > 8 || at % 2 === 0) pen.fillText(label, 8, top + this.height / 2, this.left - 12);
    pen.save();
    pen.beginPath();
    pen.rect(this.left, top, this.width(), this.height);
    pen.clip();
    this.paint(pen, row, top);
    pen.restore();
  }
  // To the edge of a pixel: colours of neighbours do not mix.
  snap(x) { return Math.round(x * this.ratio) / this.ratio; }
  // Time at 1, 2 or 5 of a unit, about a tick every 100 pixels.
  axis(pen) {
    const [begin, end] = this.board.view;
    const least = (end - begin) / Math.max(this.width() / (100 * this.board.scale), 1);
    const decade = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
    const step = [1, 2, 5, 10].map((times) => times * decade).find((size) => size >= least) || least;
    const largest = Math.max(Math.abs(begin), Math.abs(end));
    const [size, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]]
      .find(([size]) => largest >= size) || [1, "ns"];
    const decimals = Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
    const bottom = this.top - 2;
    pen.font = this.font(11);
    pen.textAlign = "center";
    pen.fillStyle = pen.strokeStyle = this.board.theme.ink;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(this.left, bottom);
    pen.lineTo(this.left + this.width(), bottom);
    for (let time = Math.ceil(begin / step) * step; time <= end; time += step) {
      const x = this.x(time);
      pen.moveTo(x, bottom);
      pen.lineTo(x, bottom - 5);
      pen.fillText((time / size).toFixed(decimals) + " " + unit, x, bottom - 13 * this.board.scale);
    }
    pen.stroke();
    pen.textAlign = "left";
  }
  mark() {}
}
