// Bubble rate over the memory limit for the times of the question, drawn point by point as it is computed.

import { make, picture } from "page/dom.js";
import { saver } from "page/files.js";
import * as link from "page/link.js";
import * as state from "page/state.js";
import { Work } from "page/work.js";

/** The schedules of the published figure, and the searched order; the limits where bubbles change most. */
const BEGINNING = { schedules: "zb-heuristic, zb-v, zb-auto", from: "1p", to: "3p", step: "0.25p" };

/** The elements of the figure. */
export async function parts(engine) {
  const asked = { ...BEGINNING, ...remembered() };
  const shown = make("div", { class: "answer", "aria-live": "off" });
  const work = new Work("Draw", (own, options) => draw(own, engine, options, asked, shown));
  const field = (name, text) => {
    const input = make("input", { type: "text", value: asked[name], spellcheck: false, autocomplete: "off" });
    input.addEventListener("input", () => {
      asked[name] = input.value;
      const figure = new URLSearchParams(asked).toString();
      link.write({ ...link.read(), figure });
    });
    return make("label", { class: "control" }, text, input);
  };
  return [
    make("h2", {}, "Bubble against memory, for your times"),
    make("p", {}, "The bubble rate of each schedule under each memory limit: figure 9 of the Zero Bubble paper, for the question of “Play”. zb-auto is the order that a search finds."),
    make("div", { class: "controls" }, field("schedules", "Schedules"), field("from", "Smallest limit"),
      field("to", "Largest limit"), field("step", "Step")),
    work.element, shown,
  ];
}

function remembered() {
  const given = Object.fromEntries(new URLSearchParams(link.read().figure ?? ""));
  return Object.fromEntries(Object.entries(given).filter(([name]) => name in BEGINNING));
}

async function draw(engine, drawer, { signal, progress }, { schedules, from, to, step }, shown) {
  const [text, files] = [state.now.scenario, state.now.files];
  const { limits } = await engine.ask({ ask: "limits", from, to, step });
  const names = schedules.split(",").map((name) => name.trim()).filter(Boolean);
  const series = names.map((schedule) => ({ schedule, points: [], refused: [] }));
  const wanted = limits.flatMap((limit) => series.map((one) => [one, limit]));
  let done = 0;
  for (const [one, limit] of wanted) {
    if (signal.aborted) break;
    progress({ what: `${one.schedule} under ${limit}`, done, of: wanted.length });
    try {
      const point = await engine.ask({ ask: "point", text, schedule: one.schedule, limit }, { files, signal });
      // A search that was cut short has found less than it would.
      if (signal.aborted) break;
      one.points.push(point);
    } catch (error) {
      if (signal.aborted) break;
      one.refused.push({ limit, text: error.text || error.message });
    }
    done += 1;
    await show(drawer, series, limits, shown);
  }
  return signal.aborted ? `Stopped after ${done} of ${wanted.length} points.` : "Done.";
}

/** Draws the points that there are. */
async function show(engine, series, limits, shown) {
  const drawn = series.filter((one) => one.points.length);
  const refused = series.filter((one) => one.refused.length).map(refusal);
  if (!drawn.length) return shown.replaceChildren(...refused);
  const points = drawn.map(({ schedule, points }) => ({ schedule, points }));
  const { svg, csv } = await engine.ask({ ask: "figure", series: points });
  shown.replaceChildren(picture(svg, `Bubble rate over the memory limit of ${drawn.map((one) => one.schedule).join(", ")}`),
    ...refused,
    make("div", { class: "buttons" }, saver("Picture", "bubble-against-memory.svg", () => svg), saver("Points as CSV", "bubble-against-memory.csv", () => csv)),
    make("details", { class: "box" }, make("summary", {}, "The same as a table"), table(drawn, limits)));
  return undefined;
}

/** Why a schedule has no point under some limits. */
function refusal({ schedule, refused }) {
  const [first] = refused;
  const more = refused.length > 1 ? ` (and under ${refused.length - 1} more limits)` : "";
  return make("details", { class: "box" }, make("summary", {}, `${schedule} has no point under ${first.limit}${more}`), make("pre", {}, first.text));
}

function table(series, limits) {
  const head = make("tr", {}, make("th", {}, "memory limit"), ...series.map((one) => make("th", { scope: "col" }, one.schedule)));
  const cell = (one, limit) => {
    const at = one.points.find((point) => point.limit === limit);
    return make("td", {}, at ? `${at.bubble}${at.fits ? "" : " (does not fit)"}` : "");
  };
  const rows = limits.map((limit) => make("tr", {}, make("th", { scope: "row" }, limit), ...series.map((one) => cell(one, limit))));
  return make("table", { class: "figures" }, make("thead", {}, head), make("tbody", {}, ...rows));
}
