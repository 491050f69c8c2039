// The tab "Records": the best known order of each pipeline of a public set, and how far any other can be from it.

import { button, make } from "page/dom.js";
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

/** Rows in families, or, sorted by the column `at`, in one body. */
function bodies(some, by) {
  if (by) return [make("tbody", {}, ...some.toSorted((a, b) => (by.up ? 1 : -1) * order(VALUES[by.at](a), VALUES[by.at](b))).map(row))];
  const head = (name, own) => make("th", { class: "apart", colSpan: HEADER.length, scope: "rowgroup" }, `${FAMILIES[name] ?? name} (${proved(own)})`);
  return [...new Set(some.map((one) => one.family))].map((name) => {
    const own = some.filter((one) => one.family === name);
    return make("tbody", {}, make("tr", {}, head(name, own)), ...own.map(row));
  });
}

const order = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true }));

/** What the columns of `HEADER` are sorted by. */
const VALUES = [(one) => one.name, (one) => one.cost, (one) => one.bound, (one) => 1 - one.bound / one.cost, (one) => one.by[0]];

/** The table of `all` records, its filter above it. */
function table(all) {
  let by = null;
  const filter = make("input", { type: "search", placeholder: "Filter, such as p8 or models", "aria-label": "Filter records" });
  const shown = make("table", { class: "figures" });
  const draw = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const some = all.filter((one) => words.every((word) => `${one.name} ${FAMILIES[one.family] ?? ""} ${one.by.join(" ")}`.toLowerCase().includes(word)));
    const head = HEADER.map((name, at) => make("th", { scope: "col", "aria-sort": by?.at === at ? by.up ? "ascending" : "descending" : null }, button(name, () => {
      by = { at, up: by?.at === at ? !by.up : true };
      draw();
      /** @type {HTMLElement} */ (shown.querySelector("[aria-sort] button")).focus();
    })));
    shown.replaceChildren(make("thead", {}, make("tr", {}, ...head)), ...bodies(some, by));
  };
  filter.addEventListener("input", draw);
  draw();
  return [filter, make("div", { class: "wide", tabIndex: 0, role: "region", "aria-label": "Records" }, shown)];
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
  const all = records();
  document.getElementById("records").append(
    make("h2", {}, "The best known orders"),
    make("p", {}, `The best known order of passes for each of ${all.length} pipelines, and a lower bound of all orders: ${proved(all)}. ` +
      "Where there is a gap, a better order or a higher bound may exist."),
    make("p", { class: "columns" }, "p8-m24: 8 stages, 24 microbatches. The last part of a name is the memory limit; 1p is what 1F1B holds on its first " +
      "stage. Times are the longest span of a stage. On the command line, debubble records has the orders, and takes better ones."),
    ...table(all),
    make("h2", {}, "Published tables"),
    make("p", {}, "Cells of papers that debubble reproduce checks, by the evidence that they are: figures of published code and formulas are met to " +
      "the digit, measurements are not. Expected misses are known, each with its reason."),
    make("div", { class: "wide", tabIndex: 0, role: "region", "aria-label": "Published tables" }, evidence()));
}
