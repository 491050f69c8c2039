// How long the shortest pass of the first stage takes.
function shortestOf([first]) {
  return first ? first.spans.reduce((least, [start, end]) => Math.min(least, end - start), Infinity) : 0;
}

// The timeline of a schedule: a row for each stage, its passes and its gaps.
class Gantt extends Chart {
  // Takes the timeline `data` of a schedule.
  take(data, height) {
    this.idle = data.idle && !data.idle.note ? data.idle : null;
    this.releases = data.releases;
    this.optimizer = data.optimizer;
    this.makespan = data.makespan;
    this.lane = data.streams ? new Lane(data.streams) : null;
    const gaps = (stage) => (this.idle ? readGaps(this.idle.gaps[stage] || "", this.board.causes.length) : []);
    const row = (packed, stage) => lazily(
      lazily({ name: "stage " + stage, short: String(stage), stage }, "spans", () => readSpans(packed, stage)),
      "gaps", () => gaps(stage));
    this.stages = data.stages.length;
    this.cursor = null;
    let shortest = null;
    Object.defineProperty(this, "shortest", { configurable: true, get: () => (shortest ??= shortestOf(this.rows)) });
    this.fill(data.stages.map(row), height);
  }
  // Height of the passes of a row, and of the communication below them.
  low() { return this.lane ? Math.floor(this.height * 0.35) : 0; }
  high() { return this.height - 2 - this.low(); }
  describe() { return `timeline of ${this.rows.length} stages, makespan ${text(this.makespan)}`; }
  // Begin and end of the gap of the last step with that number.
  gap(row, at) {
    const { first, begins, cost } = this.idle, slot = first[row.stage] + at;
    const begin = at > 0 ? row.spans[slot - 1][1] : begins[row.stage];
    const last = begins[row.stage] + cost - this.optimizer;
    return [begin, slot < row.spans.length ? row.spans[slot][0] : last];
  }
  // A gap is cut into what it is owed to; what a cause hides, a negative share, is left out.
  paintIdle(pen, row, top, tall) {
    const { view, theme } = this.board;
    for (const [at, ...shares] of row.gaps) {
      const [begin, end] = this.gap(row, at);
      if (end < view[0] || begin > view[1] || end <= begin) continue;
      const owed = shares.reduce((sum, share) => sum + Math.max(share, 0), 0);
      let from = begin;
      shares.forEach((share, cause) => {
        if (share <= 0) return;
        const to = from + (end - begin) * share / owed;
        const left = this.snap(Math.max(this.x(from), this.left)), right = this.snap(this.x(to));
        from = to;
        if (right <= left) return;
        pen.fillStyle = pen.createPattern(this.board.tiles[cause], "repeat");
        pen.fillRect(left, top, right - left, tall);
        const label = this.board.causes[cause][0], wide = pen.measureText(label).width;
        if (Math.min(right, this.left + this.width()) - left > wide + 10 && tall > 10) {
          pen.fillStyle = theme.paper;
          pen.fillRect(left + 2, top + 2, wide + 4, tall - 4);
          pen.fillStyle = theme.ink;
          pen.fillText(label, left + 4, top + tall / 2);
        }
      });
    }
    for (const ends of this.optimizer ? this.releases : []) {
      const end = ends[row.stage], left = this.x(end - this.optimizer), right = this.x(end);
      if (right < this.left || end - this.optimizer > view[1]) continue;
      pen.fillStyle = theme.optimizer;
      pen.fillRect(left, top, Math.max(right - left, 0.5), tall);
      if (right - Math.max(left, this.left) > 60 && tall > 8) {
        pen.fillStyle = "#fff";
        pen.fillText("optimizer", Math.max(left, this.left) + 3, top + tall / 2);
      }
    }
  }
  // What the gap before that slot of all steps is owed to, in words.
  owed(row, slot) {
    if (!this.idle) return [];
    const at = slot - this.idle.first[row.stage];
    const found = row.gaps.find((gap) => gap[0] === at);
    if (!found) return [];
    const parts = found.slice(1).map((share, cause) => [share, this.board.causes[cause][0]]);
    return ["owed to: " + parts.filter(([share]) => share !== 0)
      .map(([share, label]) => label + " " + text(share)).join(", ")];
  }
  // Whether a pass of the row is of a later chunk. S and T have a shard in its place, and one colour.
  later(row, chunk) { return chunk >= this.stages || chunk % this.stages !== row.stage ? 1 : 0; }
  paint(pen, row, top) {
    const tall = this.high(), { view, theme, wanted } = this.board;
    pen.fillStyle = theme.idle || this.board.idle;
    pen.fillRect(this.left, top, this.width(), tall);
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
    if (this.lane) this.paintLane(pen, row, top + tall + 1, first, last);
  }
  paintLane(pen, row, top, first, last) {
    const tall = this.low() - 1;
    pen.fillStyle = this.board.theme.idle || this.board.idle;
    pen.fillRect(this.left, top, this.width(), tall);
    pen.font = Math.min(10 * this.board.scale, tall) + "px sans-serif";
    for (let at = first; at < last; at++) this.lane.paint(pen, this, row.spans[at], top, tall);
  }
  // Each pixel shows what runs in its middle: on average, every kind is as wide as it takes time.
  paintSamples(pen, row, top, first) {
    const tall = this.high(), count = Math.ceil(this.width() * this.ratio), edge = this.snap(this.left);
    let at = first, from = 0, now = null;
    const flush = (x) => {
      if (now) {
        now.forEach(([kind, chunk], part) => {
          pen.fillStyle = this.board.fills[kind][this.later(row, chunk)];
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
    for (let at = first; at < last; at++) this.paintPass(pen, row, top, row.spans[at]);
  }
  paintPass(pen, row, top, span) {
    const tall = this.high(), all = passes(span), { wanted, fills, letters, theme } = this.board;
    const hit = wanted === null || all.some(([, , m]) => m === wanted);
    const from = this.snap(this.x(span[0])), to = this.snap(this.x(span[1]));
    const wide = Math.max(to - from, hit && wanted !== null ? 2 / this.ratio : 0);
    if (wide === 0) return;
    all.forEach(([kind, chunk], part) => {
      const later = this.later(row, chunk), one = tall / all.length, high = top + part * one;
      pen.globalAlpha = hit ? 1 : 0.15;
      pen.fillStyle = fills[kind][later];
      pen.fillRect(from, high, wide, one);
      if (later && one >= 12) {
        pen.fillStyle = letters[kind];
        pen.fillRect(from, high + one - 3, wide, 2);
      }
      pen.globalAlpha = 1;
    });
    if (to - from > 3) {
      pen.fillStyle = theme.paper;
      pen.fillRect(to - 1 / this.ratio, top, 1 / this.ratio, tall);
    }
    if (hit && wanted !== null) {
      pen.strokeStyle = theme.ink;
      pen.lineWidth = 1;
      pen.strokeRect(from, top + 0.5, wide, tall - 1);
    }
    // Where the shortest pass has no room for its name: the microbatch alone, of all.
    const left = Math.max(from, this.left), size = 6.5 * this.board.scale, room = to - left - 3;
    if (room <= size || tall <= 8) return;
    const whole = this.x(this.shortest) - this.x(0) > 5 * size;
    const label = whole ? name(span) : all.map(([, , microbatch]) => microbatch).join("&");
    if (room > label.length * size) {
      pen.fillStyle = hit ? letters[all[0][0]] : theme.faint;
      pen.fillText(label, left + 3, top + tall / 2);
    }
  }
  // The end of the last pass, and the pass that is pointed at with what it waited for.
  mark(pen) {
    const x = this.x(this.makespan), bottom = this.top + this.rows.length * this.height;
    if (x >= this.left && x <= this.left + this.width()) {
      pen.save();
      pen.strokeStyle = pen.fillStyle = this.board.theme.mark;
      pen.setLineDash([5, 3]);
      pen.beginPath();
      pen.moveTo(x, this.top - 2);
      pen.lineTo(x, bottom);
      pen.stroke();
      pen.font = this.font(11);
      pen.textAlign = "right";
      pen.fillText("makespan " + text(this.makespan), Math.max(x, this.left + 140), this.top * 0.26);
      pen.restore();
    }
    if (this.cursor) this.markCursor(pen);
  }
  markCursor(pen) {
    const { row, at } = this.cursor, source = this.source(row, at);
    pen.save();
    pen.beginPath();
    pen.rect(this.left, this.top - 2, this.width(), this.rows.length * this.height + 4);
    pen.clip();
    pen.strokeStyle = this.board.theme.ink;
    for (const [of, span, dash] of [[row, row.spans[at], []], ...(source ? [[...source, [3, 2]]] : [])]) {
      const from = this.x(span[0]), top = this.top + this.rows.indexOf(of) * this.height;
      pen.setLineDash(dash);
      pen.lineWidth = 2.5;
      pen.strokeRect(from, top, Math.max(this.x(span[1]) - from, 2), this.height - 2);
    }
    if (source) {
      const middle = (of) => this.top + (this.rows.indexOf(of) + 0.5) * this.height;
      pen.lineWidth = 1.5;
      pen.setLineDash([]);
      pen.beginPath();
      pen.moveTo(this.x(source[1][1]), middle(source[0]));
      pen.lineTo(this.x(row.spans[at][0]), middle(row));
      pen.stroke();
    }
    pen.restore();
  }
  // The row and the span that the slot waited for, where that is known.
  source(row, at) {
    const [start, , wait, by, travel] = row.spans[at];
    if (wait === 1) return at > 0 ? [row, row.spans[at - 1]] : null;
    const other = [2, 3, 4, 8].includes(wait) ? this.rows[by] : null;
    if (!other) return null;
    const found = after(other.spans, 1, wait === 2 || wait === 8 ? start - travel : start) - 1;
    return found >= 0 ? [other, other.spans[found]] : null;
  }
  // Points at the slot `at` of `row`, and brings it onto the screen.
  go(row, at) {
    const span = row.spans[at], { view } = this.board, long = view[1] - view[0];
    if (span[0] < view[0] || span[1] > view[1]) {
      const middle = (span[0] + span[1]) / 2;
      this.board.show(middle - long / 2, middle + long / 2);
    }
    const box = this.canvas.getBoundingClientRect();
    const top = box.top + this.top + (this.rows.indexOf(row) + 1) * this.height;
    const time = (span[0] + span[1]) / 2;
    this.board.point({ chart: this, row, time }, box.left + this.x(span[1]), top, true);
    this.board.select(this);
  }
  step(key) {
    if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "Enter"].includes(key)) return false;
    const { row, at } = this.cursor || { row: this.rows[0], at: -1 }, last = row.spans.length - 1;
    const aside = (step) => {
      const other = this.rows[Math.min(Math.max(this.rows.indexOf(row) + step, 0), this.rows.length - 1)];
      const time = at < 0 ? 0 : (row.spans[at][0] + row.spans[at][1]) / 2;
      return [other, Math.min(after(other.spans, 1, time), other.spans.length - 1)];
    };
    const waitedFor = () => {
      const source = at < 0 ? null : this.source(row, at);
      return source ? [source[0], source[0].spans.indexOf(source[1])] : [row, Math.max(at, 0)];
    };
    const to = { ArrowLeft: () => [row, Math.max(at - 1, 0)], ArrowRight: () => [row, Math.min(at + 1, last)],
      Home: () => [row, 0], End: () => [row, last], Enter: waitedFor,
      ArrowUp: () => aside(-1), ArrowDown: () => aside(1) }[key]();
    if (to[0].spans.length) this.go(...to);
    return true;
  }
  // What there is at `time` on `row`, in lines; the slot of it becomes the cursor.
  hover(row, time) {
    const at = after(row.spans, 1, time);
    this.cursor = null;
    for (const ends of this.optimizer ? this.releases : []) {
      const end = ends[row.stage];
      if (time >= end - this.optimizer && time <= end) {
        return ["optimizer on " + row.name, text(end - this.optimizer) + " to " + text(end)];
      }
    }
    if (at >= row.spans.length) {
      const { begins, cost, first } = this.idle || {};
      if (!this.idle || time > begins[row.stage] + cost) return [row.name, "after the step"];
      const [begin, end] = this.gap(row, at - first[row.stage]);
      return ["idle at the end of the step on " + row.name, text(begin) + " to " + text(end)]
        .concat(this.owed(row, at));
    }
    const span = row.spans[at], begin = this.idle?.begins[row.stage];
    const isFirst = at === this.idle?.first[row.stage];
    const before = isFirst ? begin : at > 0 ? row.spans[at - 1][1] : 0;
    const idle = span[0] > time;
    if (idle && isFirst && time < begin) return [row.name, "before the step"];
    this.cursor = { row, at };
    return [(idle ? "idle before " : "") + name(span) + " on " + row.name,
      text(span[0]) + " to " + text(span[1]) + ", " + text(span[1] - span[0])]
      .concat(idle || !this.lane ? [] : this.lane.lines(span, time), waited(span, before), this.owed(row, at));
  }
}
