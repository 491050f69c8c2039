// The tab "Records": the best known order of each pipeline of a public set, and how far any other can be from it.

import { make } from "page/dom.js";
import { EVIDENCE, FINDERS, KNOWN } from "page/known.js";
import { percent } from "page/words.js";

/** What the first part of a name stands for; names that begin with a number are of a model. */
const FAMILIES = {
  equal: "F, B and W take the same time, hops none",
  ends: "Unequal stages: an embedding and an output layer at the ends",
  hop5: "Slow links: a hop takes 5 % of F",
  hop20: "Slow links: a hop takes 20 % of F",
  mixed: "Unequal stages: two kinds in turn",
  models: "Models of the Zero Bubble paper, other shapes and limits",
  po: "Interleaved chunks in little memory, models of PipeOffload",
  zb: "Figure 9 of the Zero Bubble paper",
  zb5: "Table 5 of the Zero Bubble paper",
  zbv: "Table 8 of the Zero Bubble paper: two chunks in a V",
};

const HEADER = ["name", "best known, ms", "bound, ms", "gap", "found by"];

/** All records: name, family, cost and bound in microseconds, and who has found them. */
function records() {
  return KNOWN.split("\n").flatMap((line) => {
    const [pipeline, ...limits] = line.split(" ");
    const [first] = pipeline.split("-"), family = /^\d/.test(first) ? "models" : first;
    return limits.map((one) => {
      const [, limit, cost, bound = cost, order = "0", other = order] = /^(.+):([\d.]+)(?:\/([\d.]+))?(?:@(\d+)(?:,(\d+))?)?$/.exec(one);
      return { name: `${pipeline}-${limit}`, family, cost: Number(cost), bound: Number(bound), by: [order, other].map((at) => FINDERS[at]) };
    });
  });
}

const millis = (micros) => (micros / 1000).toFixed(3);
const isOptimal = ({ cost, bound }) => cost === bound;

function row(record) {
  const { name, cost, bound, by: [order, other] } = record;
  const gap = isOptimal(record) ? make("td", { class: "optimal" }, "optimal") : make("td", {}, percent(1 - bound / cost));
  const by = order === other ? order : `${order}; bound: ${other}`;
  return make("tr", {}, make("td", {}, make("code", {}, name)), make("td", {}, millis(cost)), make("td", {}, millis(bound)), gap, make("td", {}, by));
}

/** How many orders of `some` are proved optimal, in words. */
const proved = (some) => `${some.filter(isOptimal).length} of ${some.length} proved optimal`;

function family(name, own) {
  const head = make("th", { class: "apart", colSpan: HEADER.length, scope: "rowgroup" }, `${FAMILIES[name] ?? name} (${proved(own)})`);
  return make("tbody", {}, make("tr", {}, head), ...own.map(row));
}

/** Checked cells of published tables by kind of evidence. */
function evidence() {
  const [head, ...rows] = EVIDENCE.split("\n").map((line) => line.split(","));
  return make("table", { class: "figures" },
    make("thead", {}, make("tr", {}, ...head.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell))))));
}

/** Makes the tab. */
export async function begin() {
  const all = records(), families = [...new Set(all.map((one) => one.family))];
  const head = make("tr", {}, ...HEADER.map((name) => make("th", { scope: "col" }, name)));
  const table = make("table", { class: "figures" }, make("thead", {}, head),
    ...families.map((name) => family(name, all.filter((one) => one.family === name))));
  document.getElementById("records").append(
    make("h2", {}, "The best known orders"),
    make("p", {}, `The best order of passes that anybody has found for each of ${all.length} pipelines, and a lower bound: ${proved(all)}. ` +
      "Where there is a gap, a better order or a higher bound is open to find."),
    make("p", { class: "columns" }, "p8-m24: 8 stages, 24 microbatches. The last part of a name is the memory limit; 1p is what 1F1B holds on its first " +
      "stage. Times are the longest span of a stage. On the command line, debubble records has the orders, and takes better ones."),
    make("div", { class: "wide", tabIndex: 0, role: "region", "aria-label": "Records" }, table),
    make("h2", {}, "Published tables"),
    make("p", {}, "Cells of papers that debubble reproduce checks, by the evidence that they are: figures of published code and formulas are met to " +
      "the digit, measurements are not. Expected misses are known, each with its reason."),
    make("div", { class: "wide", tabIndex: 0, role: "region", "aria-label": "Published tables" }, evidence()));
}
