// All schedules in the plane of bubble and memory: a picture to choose from.

import { bytes } from "page/charts.js";
import { make } from "page/dom.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDE, TALL, LEFT, RIGHT, TOP, BOTTOM] = [720, 380, 56, 16, 14, 44];
const WORDS = { front: "on the front", beaten: "beaten", "over-limit": "does not fit", "not-compared": "asynchronous: not compared" };

/** The picture of the `points` of an answer; `chosen` is called with the schedule that is clicked. */
export function pareto(answer, chosen) {
  const { points, results } = answer, isBytes = results[0]?.peak_activation_bytes !== null;
  const limits = new Set(results.map((one) => one.memory_limit_bytes));
  const limit = isBytes && limits.size === 1 && typeof [...limits][0] === "number" ? [...limits][0] : null;
  const most = [Math.max(...points.map((one) => one.memory[0]), limit || 0) * 1.08 || 1,
    Math.max(...points.map((one) => one.bubble[0]), 0.01) * 1.08];
  const x = (memory) => LEFT + memory / most[0] * (WIDE - LEFT - RIGHT);
  const y = (bubble) => TALL - BOTTOM - bubble / most[1] * (TALL - TOP - BOTTOM);
  const svg = draw("svg", { viewBox: `0 0 ${WIDE} ${TALL}`, class: "pareto", role: "group", "aria-label": "Bubble against peak memory" });
  svg.append(...axes(most[0], most[1], x, y, isBytes));
  if (limit) {
    svg.append(draw("line", { x1: x(limit), x2: x(limit), y1: TOP, y2: TALL - BOTTOM, class: "limit" }),
      words(x(limit) + 4, TOP - 4, "memory limit", "start"));
  }
  const front = points.filter((one) => one.standing === "front").toSorted((a, b) => a.memory[0] - b.memory[0]);
  const steps = front.flatMap((one, at) => [at ? [one.memory[0], front[at - 1].bubble[0]] : null, [one.memory[0], one.bubble[0]]]);
  const path = steps.filter(Boolean).map(([memory, bubble]) => `${x(memory)},${y(bubble)}`).join(" ");
  svg.append(draw("polyline", { points: path, class: "front" }));
  svg.append(...points.map((one) => mark(one, x, y, chosen)), ...labels(points, x, y));
  if (points.some((one) => one.standing === "not-compared")) svg.append(...ring());
  return svg;
}

// What a ring stands for.
function ring() {
  const [cx, cy] = [WIDE - RIGHT - 168, TOP + 8];
  const group = draw("g", { class: "point not-compared" });
  group.append(draw("circle", { cx, cy, r: 5 }));
  return [group, words(cx + 12, cy + 4, WORDS["not-compared"], "start")];
}

function axes(memory, bubble, x, y, isBytes) {
  const lines = [draw("path", { d: `M${LEFT},${TOP}V${TALL - BOTTOM}H${WIDE - RIGHT}`, class: "axis" })];
  for (const tick of ticks(memory, isBytes ? 1024 : 10)) {
    lines.push(words(x(tick), TALL - BOTTOM + 16, isBytes ? bytes(tick).replace(/\.00 /, " ") : String(tick), "middle"));
  }
  for (const tick of ticks(100 * bubble, 10)) lines.push(words(LEFT - 6, y(tick / 100) + 4, `${tick} %`, "end"));
  lines.push(words((LEFT + WIDE - RIGHT) / 2, TALL - 8, isBytes ? "peak activation memory" : "peak memory, in M_B", "middle"));
  lines.push(words(LEFT + 6, TOP + 4, "bubble", "start"));
  return lines;
}

/** Four to eight round numbers up to `most`: 1, 2 or 5 times ten powers of each unit of `base`. */
function ticks(most, base) {
  const unit = base === 1024 ? 1024 ** Math.floor(Math.log(most) / Math.log(1024)) : 1;
  const least = most / unit / 7, decade = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((times) => times * decade).find((size) => size >= least) * unit;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => Number((at * step).toPrecision(12)));
}

function mark(one, x, y, chosen) {
  const [cx, cy] = [x(one.memory[0]), y(one.bubble[0])];
  const said = `${one.title}: bubble ${one.bubble[1]}, peak ${one.memory[1]}, ${WORDS[one.standing] || ""}`;
  const group = draw("g", { class: `point ${one.standing}`, tabindex: 0, role: "button", "aria-label": said });
  // Told apart by form, too: what does not fit is a cross, what is beaten is hollow.
  const form = one.standing === "over-limit"
    ? draw("path", { d: `M${cx - 5},${cy - 5}l10,10M${cx - 5},${cy + 5}l10,-10` })
    : draw("circle", { cx, cy, r: one.standing === "front" ? 6 : 5 });
  const title = draw("title", {});
  title.textContent = said;
  group.append(title, draw("circle", { cx, cy, r: 12, class: "reach" }), form);
  const act = () => chosen(one);
  group.addEventListener("click", act);
  group.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    act();
  });
  return group;
}

// The names beside the points, those of one point together and those on the front first, where they have room.
function labels(points, x, y) {
  const spots = new Map();
  const worth = (one) => (one.standing === "front" ? 0 : 1);
  for (const one of points.toSorted((a, b) => worth(a) - worth(b))) {
    const [cx, cy] = [x(one.memory[0]), y(one.bubble[0])];
    const near = [...spots.values()].find((spot) => Math.hypot(spot.cx - cx, spot.cy - cy) < 3);
    if (near) near.names.push(one.title);
    else spots.set(one, { cx, cy, names: [one.title], front: worth(one) === 0 });
  }
  const taken = [...spots.values()].map(({ cx, cy }) => [cx - 6, cy - 6, cx + 6, cy + 6]);
  return [...spots.values()].flatMap(({ cx, cy, names, front }) => {
    const text = names.join(", "), wide = text.length * 6.2;
    const boxes = [[9, -5], [9, 13], [-9 - wide, -5], [-9 - wide, 13], [-wide / 2, -12], [-wide / 2, 20]]
      .map(([right, down]) => [cx + right, cy + down - 9, cx + right + wide, cy + down + 3]);
    const apart = (a, b) => a[2] < b[0] || a[0] > b[2] || a[3] < b[1] || a[1] > b[3];
    const free = (box) => box[0] > LEFT && box[2] < WIDE && box[1] > 0 && box[3] < TALL - BOTTOM
      && taken.every((one) => apart(box, one));
    const box = boxes.find(free);
    if (!box) return [];
    taken.push(box);
    const label = words(box[0], box[3] - 3, text, "start");
    label.setAttribute("class", front ? "name front" : "name");
    return [label];
  });
}

function words(x, y, text, anchor) {
  const one = draw("text", { x, y, "text-anchor": anchor });
  one.textContent = text;
  return one;
}

function draw(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
  return element;
}

/** The points as a table, for those who do not see the picture. */
export function paretoTable(answer) {
  const rows = answer.points.map((one) => make("tr", {}, ...[one.title, one.bubble[1], one.memory[1], WORDS[one.standing] || ""]
    .map((cell) => make("td", {}, cell))));
  const head = make("tr", {}, ...["schedule", "bubble", "peak memory", "standing"].map((name) => make("th", { scope: "col" }, name)));
  const table = make("table", { class: "figures" }, make("thead", {}, head), make("tbody", {}, ...rows));
  return make("div", { class: "wide", tabIndex: 0, role: "region", "aria-label": "Bubble and peak memory of all schedules" }, table);
}
