"use strict";
// Reads the numbers of a text one by one, as pack.rs writes them.
const DIGITS = new Map([..."0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-"]
  .map((digit, worth) => [digit, worth]));
class Numbers {
  constructor(text) { this.text = text; this.at = 0; }
  more() { return this.at < this.text.length; }
  natural() {
    let number = 0, scale = 1;
    for (;;) {
      const digit = DIGITS.get(this.text[this.at++]);
      number += (digit % 32) * scale;
      if (digit < 32) return number;
      scale *= 32;
    }
  }
  signed() {
    const twice = this.natural();
    return twice % 2 ? -(twice + 1) / 2 : twice / 2;
  }
}

// The slots of a stage, as the form of spans in words.js says.
function readSpans(text, stage) {
  const from = new Numbers(text), spans = [], lengths = {}, last = {};
  let end = 0, travels = 0;
  const pass = (kind) => {
    const before = last[kind] || (last[kind] = [0, 0]);
    before[0] += from.signed();
    before[1] += from.signed();
    return [kind, before[0], before[1]];
  };
  while (from.more()) {
    const start = end + from.signed(), change = from.signed(), what = from.natural();
    const kinds = KINDS.length, pairs = 9 * kinds, kind = what % kinds;
    const wait = what >= 2 * pairs ? 9 : Math.floor(what / kinds) % 9, pair = what % (2 * pairs) >= pairs;
    lengths[kind] = (lengths[kind] || 0) + change;
    end = start + lengths[kind];
    const by = [2, 3, 4, 8].includes(wait) ? stage + from.signed() : 0;
    const carried = [2, 4, 8].includes(wait);
    if (carried) travels += from.signed();
    const span = [start, end, wait, by, carried ? travels : 0, ...pass(kind)];
    if (pair) span.push(...pass(from.natural()));
    spans.push(span);
  }
  return spans;
}

function readTransfers([stage, to, text]) {
  const from = new Numbers(text), sent = [], microbatches = [0, 0];
  let made = 0, length = 0, what = 0;
  while (from.more()) {
    made += from.signed();
    length += from.signed();
    what += from.signed();
    const gradient = what % 2;
    microbatches[gradient] += from.signed();
    sent.push([stage, to, made, made + length, gradient, Math.floor(what / 2), microbatches[gradient]]);
  }
  return sent;
}

function readCurve(text) {
  const from = new Numbers(text), points = [];
  let time = 0, held = 0;
  while (from.more()) {
    time += from.signed();
    held += from.signed();
    points.push([time, held]);
  }
  return points;
}

// By gap: before which slot, then nanoseconds by cause, of which there are `count`.
function readGaps(text, count) {
  const from = new Numbers(text), gaps = [];
  let at = 0;
  while (from.more()) {
    at += from.signed();
    const causes = from.natural();
    const shares = Array.from({ length: count }, (_, cause) => (causes >> cause) & 1 ? from.signed() : 0);
    gaps.push([at, ...shares]);
  }
  return gaps;
}
