// A span is [start, end, wait, by, travel, kind, chunk, microbatch, (the same of a second pass)],
// a transfer [from, to, made, end, gradient, chunk, microbatch]; all times are nanoseconds. Both come
// as texts of numbers, which are read when they are first drawn.
const data = JSON.parse(document.getElementById("data").textContent);
const KINDS = ["F", "B", "W", "BW", "S", "T"];
const LEFT = 96, TOP = 46, INK = "#222", IDLE = data.idle;
const el = (id) => document.getElementById(id);
let view = [0, data.end || 1];
let wanted = null, pending = false;
const charts = [];

function text(ns) {
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "us"]];
  const unit = units.find(([size]) => Math.abs(ns) >= size);
  return unit ? (ns / unit[0]).toFixed(3) + " " + unit[1] : ns + " ns";
}

function bytes(count) {
  const units = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];
  const unit = units.find(([size]) => count >= size);
  return unit ? (count / unit[0]).toFixed(2) + " " + unit[1] : count + " B";
}

// Gives `row` the list `name`, which is read when it is first asked for.
function lazily(row, name, read) {
  let list = null;
  Object.defineProperty(row, name, { get: () => list || (list = read()) });
  return row;
}

function passes(span) {
  const all = [];
  for (let i = 5; i < span.length; i += 3) all.push(span.slice(i, i + 3));
  return all;
}

const name = (span) => passes(span).map(([k, c, m]) => KINDS[k] + c + "." + m).join("&");

function waited(span, before) {
  const [start, , wait, by, travel] = span;
  const gap = start - before;
  const lines = [];
  const what = ["nothing", "the slot before it", "a value from stage " + by + ", " + text(travel) +
    " on its way", "the device, which stage " + by + " had", "what stage " + by + " was sending",
    "its activation on the way from the host", "room, until an activation was on the host",
    "the end of the step before", "a collective of all stages, " + text(travel) +
    " long, set off by stage " + by];
  lines.push("waited for: " + what[wait]);
  if (gap > 0) {
    const carried = wait === 2 || wait === 8;
    const sent = carried ? Math.min(gap, travel) : 0;
    const causes = carried
      ? "on its way " + text(sent) + ", work of stage " + by + " " + text(gap - sent)
      : null;
    lines.push("idle before it: " + text(gap) + (causes ? " (" + causes + ")" : ""));
  }
  return lines;
}

// The first of `list` whose value at `key` is larger than `time`; the values ascend.
function after(list, key, time) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle][key] > time) high = middle; else low = middle + 1;
  }
  return low;
}

// Each cause has a hatching of its own beside its colour, to be told apart from passes, and in grey:
// lines from corner to corner, and none for what is left in the end.
const HATCHES = [[[0, 0, 8, 8], [0, 8, 8, 0]], [[0, 8, 8, 0]], [[0, 4, 8, 4]], [[4, 0, 4, 8]],
  [[0, 0, 8, 8]], [[0, 4, 8, 4], [4, 0, 4, 8]], []];
const tiles = data.causes.map(([, colour], cause) => {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 8, 8);
  pen.strokeStyle = "#fff";
  pen.lineWidth = 1.2;
  for (const [a, b, c, d] of HATCHES[cause] || []) {
    pen.beginPath();
    pen.moveTo(a, b);
    pen.lineTo(c, d);
    pen.stroke();
  }
  return tile;
});

class Chart {
  constructor(rows, height, title) {
    this.rows = rows; this.height = height; this.title = title;
    this.canvas = document.createElement("canvas");
    el("charts").append(this.canvas);
    this.canvas.style.height = this.tall() + "px";
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(Math.exp(event.deltaY * 0.0015), this.time(event.offsetX));
    }, { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => {
      this.drag = [event.offsetX, view[0], view[1]];
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointerup", () => { this.drag = null; });
    this.canvas.addEventListener("pointercancel", () => { this.drag = null; });
    this.canvas.addEventListener("pointerleave", () => { el("tip").style.display = "none"; });
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    charts.push(this);
  }
  width() { return this.canvas.clientWidth - LEFT - 12; }
  x(time) { return LEFT + (time - view[0]) / (view[1] - view[0]) * this.width(); }
  time(x) { return view[0] + (x - LEFT) / this.width() * (view[1] - view[0]); }
  move(event) {
    if (this.drag) {
      const [x, begin, end] = this.drag;
      const shift = (event.offsetX - x) / this.width() * (end - begin);
      show(begin - shift, end - shift);
      return;
    }
    const row = Math.floor((event.offsetY - TOP) / this.height);
    const time = this.time(event.offsetX);
    const lines = row >= 0 && row < this.rows.length && event.offsetX >= LEFT
      ? this.hover(this.rows[row], time) : null;
    const tip = el("tip");
    tip.style.display = lines ? "block" : "none";
    if (!lines) return;
    tip.textContent = lines.join("\n");
    const side = event.clientX > innerWidth / 2;
    tip.style.left = side ? "" : event.clientX + 14 + "px";
    tip.style.right = side ? innerWidth - event.clientX + 14 + "px" : "";
    tip.style.top = Math.min(event.clientY + 14, innerHeight - 120) + "px";
  }
  tall() { return TOP + this.rows.length * this.height + 8; }
  // Draws the chart if it is on the screen or near it.
  draw() {
    const box = this.canvas.getBoundingClientRect();
    this.stale = box.bottom < -300 || box.top > innerHeight + 300;
    if (this.stale) return;
    const ratio = this.ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(this.canvas.clientWidth * ratio);
    this.canvas.height = Math.round(this.tall() * ratio);
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.textBaseline = "middle";
    pen.font = "bold 12px sans-serif";
    pen.fillStyle = INK;
    pen.fillText(this.title, 8, 12);
    this.narrow = 0;
    this.axis(pen);
    this.rows.forEach((row, at) => {
      const top = TOP + at * this.height;
      pen.font = Math.min(11, this.height) + "px sans-serif";
      pen.fillStyle = INK;
      if (this.height > 8 || at % 2 === 0) pen.fillText(row.name, 8, top + this.height / 2, LEFT - 12);
      pen.save();
      pen.beginPath();
      pen.rect(LEFT, top, this.width(), this.height);
      pen.clip();
      this.paint(pen, row, top);
      pen.restore();
    });
    this.mark(pen);
  }
  // To the edge of a pixel: colours of neighbours do not mix.
  snap(x) { return Math.round(x * this.ratio) / this.ratio; }
  // Time at 1, 2 or 5 of a unit, about a tick every 100 pixels.
  axis(pen) {
    const [begin, end] = view, least = (end - begin) / Math.max(this.width() / 100, 1);
    const decade = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
    const step = [1, 2, 5, 10].map((times) => times * decade).find((size) => size >= least) || least;
    const largest = Math.max(Math.abs(begin), Math.abs(end));
    const [size, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]]
      .find(([size]) => largest >= size) || [1, "ns"];
    const decimals = Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
    const bottom = TOP - 2;
    pen.font = "11px sans-serif";
    pen.textAlign = "center";
    pen.fillStyle = pen.strokeStyle = INK;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(LEFT, bottom);
    pen.lineTo(LEFT + this.width(), bottom);
    for (let time = Math.ceil(begin / step) * step; time <= end; time += step) {
      const x = this.x(time);
      pen.moveTo(x, bottom);
      pen.lineTo(x, bottom - 5);
      pen.fillText((time / size).toFixed(decimals) + " " + unit, x, bottom - 13);
    }
    pen.stroke();
    pen.textAlign = "left";
  }
  mark() {}
}

class Gantt extends Chart {
  // Begin and end of the gap of the last step with that number.
  gap(row, at) {
    const { first, begins, cost } = this.idle, slot = first[row.stage] + at;
    const begin = at > 0 ? row.spans[slot - 1][1] : begins[row.stage];
    const last = begins[row.stage] + cost - this.optimizer;
    return [begin, slot < row.spans.length ? row.spans[slot][0] : last];
  }
  // A gap is cut into what it is owed to; what a cause hides, a negative share, is left out.
  paintIdle(pen, row, top, tall) {
    for (const [at, ...shares] of row.gaps) {
      const [begin, end] = this.gap(row, at);
      if (end < view[0] || begin > view[1] || end <= begin) continue;
      const owed = shares.reduce((sum, share) => sum + Math.max(share, 0), 0);
      let from = begin;
      shares.forEach((share, cause) => {
        if (share <= 0) return;
        const to = from + (end - begin) * share / owed;
        const left = this.snap(Math.max(this.x(from), LEFT)), right = this.snap(this.x(to));
        from = to;
        if (right <= left) return;
        pen.fillStyle = pen.createPattern(tiles[cause], "repeat");
        pen.fillRect(left, top, right - left, tall);
        const label = data.causes[cause][0], wide = pen.measureText(label).width;
        if (Math.min(right, LEFT + this.width()) - left > wide + 10 && this.height > 12) {
          pen.fillStyle = "#fff";
          pen.fillRect(left + 2, top + 2, wide + 4, tall - 4);
          pen.fillStyle = INK;
          pen.fillText(label, left + 4, top + tall / 2);
        }
      });
    }
    if (!this.optimizer) return;
    for (const ends of this.releases) {
      const end = ends[row.stage], left = this.x(end - this.optimizer), right = this.x(end);
      if (right < LEFT || end - this.optimizer > view[1]) continue;
      pen.fillStyle = "#444";
      pen.fillRect(left, top, Math.max(right - left, 0.5), tall);
      if (right - Math.max(left, LEFT) > 60 && this.height > 10) {
        pen.fillStyle = "#fff";
        pen.fillText("optimizer", Math.max(left, LEFT) + 3, top + tall / 2);
      }
    }
  }
  // What the gap before that slot of all steps is owed to, in words.
  owed(row, slot) {
    const at = slot - this.idle.first[row.stage];
    const found = row.gaps.find((gap) => gap[0] === at);
    if (!found) return [];
    const parts = found.slice(1).map((share, cause) => [share, data.causes[cause][0]]);
    return ["owed to: " + parts.filter(([share]) => share !== 0)
      .map(([share, label]) => label + " " + text(share)).join(", ")];
  }
  // Whether a pass of the row is of a later chunk. S and T have a shard in its place, and one colour.
  later(row, chunk) { return chunk >= this.stages || chunk % this.stages !== row.stage ? 1 : 0; }
  paint(pen, row, top) {
    const tall = this.height - 2;
    pen.fillStyle = IDLE;
    pen.fillRect(LEFT, top, this.width(), tall);
    this.paintIdle(pen, row, top, tall);
    const first = after(row.spans, 1, view[0]);
    let last = first;
    while (last < row.spans.length && row.spans[last][0] <= view[1]) last += 1;
    // Half of the passes or more are narrower than a pixel.
    const narrow = row.spans.slice(first, last)
      .filter(([start, end]) => (this.x(end) - this.x(start)) * this.ratio < 1).length;
    this.narrow += narrow;
    if (wanted === null && 2 * narrow > last - first) this.paintSamples(pen, row, top, first);
    else this.paintPasses(pen, row, top, first, last);
  }
  // Each pixel shows what runs in its middle: on average, every kind is as wide as it takes time.
  paintSamples(pen, row, top, first) {
    const tall = this.height - 2, count = Math.ceil(this.width() * this.ratio), edge = this.snap(LEFT);
    let at = first, from = 0, now = null;
    const flush = (x) => {
      if (now) {
        now.forEach(([kind, chunk], part) => {
          pen.fillStyle = data.colours[kind][this.later(row, chunk)];
          const one = tall / now.length;
          pen.fillRect(edge + from / this.ratio, top + part * one, (x - from) / this.ratio, one);
        });
      }
      from = x;
    };
    for (let x = 0; x < count; x++) {
      const time = this.time(edge + (x + 0.5) / this.ratio);
      while (at < row.spans.length && row.spans[at][1] <= time) at += 1;
      flush(x);
      const span = row.spans[at];
      now = span && span[0] <= time ? passes(span) : null;
    }
    flush(count);
  }
  paintPasses(pen, row, top, first, last) {
    const tall = this.height - 2;
    for (let at = first; at < last; at++) {
      const span = row.spans[at], all = passes(span);
      const hit = wanted === null || all.some(([, , m]) => m === wanted);
      const from = this.snap(this.x(span[0])), to = this.snap(this.x(span[1]));
      const wide = Math.max(to - from, hit && wanted !== null ? 2 / this.ratio : 0);
      if (wide === 0) continue;
      all.forEach(([kind, chunk], part) => {
        const later = this.later(row, chunk), one = tall / all.length, high = top + part * one;
        pen.globalAlpha = hit ? 1 : 0.15;
        pen.fillStyle = data.colours[kind][later];
        pen.fillRect(from, high, wide, one);
        if (later && one >= 12) {
          pen.fillStyle = data.letters[kind];
          pen.fillRect(from, high + one - 3, wide, 2);
        }
        pen.globalAlpha = 1;
      });
      if (to - from > 3) {
        pen.fillStyle = "#fff";
        pen.fillRect(to - 1 / this.ratio, top, 1 / this.ratio, tall);
      }
      if (hit && wanted !== null) {
        pen.strokeStyle = "#000";
        pen.lineWidth = 1;
        pen.strokeRect(from, top + 0.5, wide, tall - 1);
      }
      const label = name(span);
      if (to - Math.max(from, LEFT) > label.length * 6.5 && this.height > 10) {
        pen.fillStyle = hit ? data.letters[all[0][0]] : "#777";
        pen.fillText(label, Math.max(from, LEFT) + 3, top + tall / 2);
      }
    }
  }
  // The end of the last pass.
  mark(pen) {
    const x = this.x(this.makespan), bottom = TOP + this.rows.length * this.height;
    if (x < LEFT || x > LEFT + this.width()) return;
    pen.save();
    pen.strokeStyle = pen.fillStyle = "#8a1c00";
    pen.setLineDash([5, 3]);
    pen.beginPath();
    pen.moveTo(x, TOP - 2);
    pen.lineTo(x, bottom);
    pen.stroke();
    pen.font = "11px sans-serif";
    pen.textAlign = "right";
    pen.fillText("makespan " + text(this.makespan), Math.max(x, LEFT + 140), 12);
    pen.restore();
  }
  hover(row, time) {
    const at = after(row.spans, 1, time);
    for (const ends of this.optimizer ? this.releases : []) {
      const end = ends[row.stage];
      if (time >= end - this.optimizer && time <= end) {
        return ["optimizer on " + row.name, text(end - this.optimizer) + " to " + text(end)];
      }
    }
    const { begins, cost, first, note } = this.idle;
    if (at >= row.spans.length) {
      if (note || time > begins[row.stage] + cost) return [row.name, "after the step"];
      const [begin, end] = this.gap(row, at - first[row.stage]);
      return ["idle at the end of the step on " + row.name, text(begin) + " to " + text(end)]
        .concat(this.owed(row, at));
    }
    const span = row.spans[at];
    const before = !note && at === first[row.stage] ? begins[row.stage]
      : at > 0 ? row.spans[at - 1][1] : 0;
    const idle = span[0] > time;
    if (idle && !note && time < begins[row.stage] && at === first[row.stage]) {
      return [row.name, "before the step"];
    }
    return [(idle ? "idle before " : "") + name(span) + " on " + row.name,
      text(span[0]) + " to " + text(span[1]) + ", " + text(span[1] - span[0])]
      .concat(waited(span, before), note ? [] : this.owed(row, at));
  }
}

class Curve extends Chart {
  paint(pen, row, top) {
    const most = row.most || 1, tall = this.height - 3;
    const points = row.points;
    pen.beginPath();
    pen.moveTo(LEFT, top + tall);
    const first = Math.max(after(points, 0, view[0]) - 1, 0);
    let level = 0;
    for (let at = first; at < points.length; at++) {
      const x = this.x(points[at][0]);
      pen.lineTo(x, top + tall - level / most * tall);
      level = points[at][1];
      pen.lineTo(x, top + tall - level / most * tall);
      if (points[at][0] > view[1]) break;
    }
    pen.lineTo(this.x(Math.max(view[1], data.end)), top + tall - level / most * tall);
    pen.lineTo(this.x(Math.max(view[1], data.end)), top + tall);
    pen.closePath();
    pen.fillStyle = "#c9d8ea";
    pen.fill();
    pen.strokeStyle = "#1b3a6b";
    pen.stroke();
    if (row.limit && row.limit <= most) {
      pen.strokeStyle = "#a83c1e";
      pen.setLineDash([4, 3]);
      const y = top + tall - row.limit / most * tall;
      pen.strokeRect(LEFT, y, this.width(), 0);
      pen.setLineDash([]);
    }
  }
  hover(row, time) {
    const at = after(row.points, 0, time) - 1;
    return [row.name, bytes(at < 0 ? 0 : row.points[at][1]) + " at " + text(Math.round(time)),
      "peak " + bytes(row.peak)];
  }
}

class Links extends Chart {
  paint(pen, row, top) {
    for (let at = 0; at < row.sent.length; at++) {
      const one = row.sent[at];
      if (one[2] > view[1]) break;
      if (one[3] < view[0]) continue;
      const from = this.x(one[2]), hit = wanted === null || one[6] === wanted;
      pen.globalAlpha = hit ? 0.7 : 0.1;
      pen.fillStyle = data.colours[one[4]][0];
      pen.fillRect(from, top, Math.max(this.x(one[3]) - from, 0.7), this.height - 1);
    }
    pen.globalAlpha = 1;
  }
  hover(row, time) {
    const at = row.sent.filter((one) => one[2] <= time && time <= one[3]).slice(0, 6);
    return [row.name].concat(at.length ? at.map((one) => (one[4] ? "gradient" : "output") + " " +
      one[5] + "." + one[6] + ": " + text(one[2]) + " to " + text(one[3])) : ["nothing on its way"]);
  }
}

function show(begin, end) {
  view = [begin, end];
  el("range").textContent = text(begin) + " to " + text(end);
  // Many moves of the mouse are drawn once.
  if (!pending) requestAnimationFrame(drawAll);
  pending = true;
}

function drawAll() {
  pending = false;
  charts.forEach((chart) => chart.draw());
  sayNarrow();
}

// What of the passes on the screen is too narrow to be seen.
function sayNarrow() {
  const count = charts.reduce((sum, chart) => sum + (chart.stale ? 0 : chart.narrow || 0), 0);
  el("narrow").textContent = count
    ? count + " passes are narrower than a pixel: where most are, each pixel shows what runs in the " +
      "middle of its time; zoom in to see them"
    : "";
}

// Draws what has come onto the screen.
function drawStale() {
  const stale = charts.filter((chart) => chart.stale);
  stale.forEach((chart) => chart.draw());
  if (stale.some((chart) => !chart.stale)) sayNarrow();
}

function zoom(factor, around) {
  const length = Math.min(Math.max((view[1] - view[0]) * factor, 10), 4 * (data.end || 1));
  const share = (around - view[0]) / (view[1] - view[0]);
  show(around - share * length, around + (1 - share) * length);
}

function linkRows(chart) {
  return chart.transfers.map((one) => (
    lazily({ name: one[0] + " to " + one[1] }, "sent", () => readTransfers(one))));
}

// What the average stage does with its time: the totals of the gaps below.
function legend(chart) {
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
    if (cause !== null || name === "optimizer") {
      const key = document.createElement("canvas");
      key.className = "key";
      key.width = key.height = 12;
      const pen = key.getContext("2d");
      pen.fillStyle = cause === null ? "#444" : pen.createPattern(tiles[cause], "repeat");
      pen.fillRect(0, 0, 12, 12);
      head.prepend(key);
    }
    cell(times, "td", time);
    cell(shares, "td", share);
  }
  if (chart.idle.note) cell(table.insertRow(), "td", "causes are not known: " + chart.idle.note);
  el("charts").append(table);
}

for (const chart of data.charts) {
  legend(chart);
  const rows = chart.stages.map((packed, stage) => {
    const row = lazily({ name: "stage " + stage, stage }, "spans", () => readSpans(packed, stage));
    return lazily(row, "gaps", () => readGaps(chart.idle.gaps[stage] || ""));
  });
  const gantt = new Gantt(rows, rows.length > 40 ? 10 : rows.length > 16 ? 14 : 20, chart.name);
  gantt.stages = rows.length;
  gantt.idle = chart.idle;
  gantt.releases = chart.releases;
  gantt.optimizer = chart.optimizer;
  gantt.makespan = chart.makespan;
  const most = chart.memory.reduce((all, [, peak]) => Math.max(all, peak), 0);
  const memory = chart.memory.map(([device, peak, packed]) => lazily({ name: "device " + device, most,
    peak, limit: chart.limits ? chart.limits[device] : null }, "points", () => readCurve(packed)));
  const scale = "memory of each device, " + chart.name + " (full height: " + bytes(most) + ")";
  if (memory.length) new Curve(memory, memory.length > 16 ? 16 : 28, scale);
  const links = linkRows(chart);
  if (links.length) new Links(links, links.length > 32 ? 7 : 12, "transfers, " + chart.name);
}
const used = new Set(data.kinds);
KINDS.forEach((kind, at) => {
  if (!used.has(at)) return;
  const key = document.createElement("span");
  key.className = "key";
  key.style.background = data.colours[at][0];
  el("legend").append(key, kind);
});
const blank = document.createElement("span");
blank.className = "key";
blank.style.background = IDLE;
el("legend").append(blank, "idle; darker, with a line: a later chunk");
el("in").onclick = () => zoom(0.5, (view[0] + view[1]) / 2);
el("out").onclick = () => zoom(2, (view[0] + view[1]) / 2);
el("fit").onclick = () => show(0, data.end || 1);
el("search").oninput = () => {
  const value = el("search").value;
  wanted = value === "" ? null : Number(value);
  drawAll();
};
el("axis").textContent = data.axis;
el("left-out").textContent = data.left_out || "";
addEventListener("resize", drawAll);
addEventListener("scroll", () => requestAnimationFrame(drawStale), { passive: true });
show(0, data.end || 1);
