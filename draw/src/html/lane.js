// The communication stream of a stage, below its passes.

// What the script of a page reads of the kinds of slots: how long one takes at nominal pace, its communication
// segment by segment, and as pieces that are hidden behind compute or not.
function readSlot([duration, segments, pieces], names) {
  const lane = { duration, segments: [], pieces: [] };
  let from = new Numbers(segments), end = 0;
  while (from.more()) {
    const name = names[from.natural()], part = KINDS[from.natural()], layer = from.natural() - 1;
    const start = end + from.signed(), hidden = from.natural();
    end = start + from.natural();
    const long = `${name} of ${part}` + (layer < 0 ? "" : ", layer " + layer);
    lane.segments.push({ label: name + " " + part, name: long, start, end, hidden });
  }
  for (from = new Numbers(pieces), end = 0; from.more();) {
    const start = end + from.natural(), length = from.natural();
    end = start + Math.floor(length / 2);
    lane.pieces.push([start, end, length % 2 === 1]);
  }
  return lane;
}

class Lane {
  constructor({ names, chains, slots }) { Object.assign(this, { names, chains, slots, known: new Map() }); }
  // What the slot of `span` communicates, if it has segments.
  of(span) {
    const kind = passes(span).map(([kind, chunk]) => kind + "." + this.chains[chunk]).join("&");
    if (!this.known.has(kind)) {
      const slot = this.slots[kind];
      this.known.set(kind, slot ? readSlot(slot, this.names) : null);
    }
    return this.known.get(kind);
  }
  // When that of a slot is which is so long after the slot's start at nominal pace.
  static at(span, slot, time) { return span[0] + time * (span[1] - span[0]) / Math.max(slot.duration, 1); }
  // Paints the communication of `span` on `chart`; of slots that are a few pixels wide, none.
  paint(pen, chart, span, top, tall) {
    if (chart.x(span[1]) - chart.x(span[0]) < 8) return;
    const slot = this.of(span), { wanted, communication, view, theme } = chart.board;
    if (!slot) return;
    const edge = (time) => chart.snap(chart.x(Lane.at(span, slot, time)));
    pen.globalAlpha = wanted === null || passes(span).some(([, , m]) => m === wanted) ? 1 : 0.15;
    for (const [start, end, hidden] of slot.pieces) {
      const left = edge(start), right = edge(end);
      if (right < chart.left || left > chart.x(view[1])) continue;
      pen.fillStyle = communication[hidden ? 0 : 1];
      pen.fillRect(left, top, right - left, tall);
    }
    for (const { label, start, end, hidden } of tall > 7 ? slot.segments : []) {
      const left = Math.max(edge(start), chart.left), right = Math.min(edge(end), chart.x(view[1]));
      if (right - left > 4) {
        pen.fillStyle = theme.paper;
        pen.fillRect(right - 1 / chart.ratio, top, 1 / chart.ratio, tall);
      }
      if (right - left < label.length * 6.5 * chart.board.scale) continue;
      pen.fillStyle = 2 * hidden < end - start ? "#fff" : "#000";
      pen.fillText(label, left + 3, top + tall / 2);
    }
    pen.globalAlpha = 1;
  }
  // What is communicated in `span` at `time`, in lines.
  lines(span, time) {
    const slot = this.of(span);
    const one = slot?.segments.find(({ start, end }) =>
      Lane.at(span, slot, start) <= time && time < Lane.at(span, slot, end));
    if (!one) return [];
    const share = Math.round(100 * one.hidden / (one.end - one.start));
    return [`communication: ${one.name}, ${text(one.end - one.start)}, ${share} % of it beside compute`];
  }
}
