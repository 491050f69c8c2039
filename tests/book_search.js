// Asks the search of the book in everyday words, as its page does: node book_search.js FOLDER. Fails where the page that
// answers is not among the first results.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

// Words, the page that answers, and how far down it may stand.
const WANTED = [
  ["B200 accuracy", "explanation/accuracy", 2],
  ["how accurate", "explanation/accuracy", 3],
  ["bubble rate defined", "explanation/bubble-rate", 1],
  ["own schedule", "how-to/own-schedule", 1],
  ["figure paper", "how-to/figures", 2],
  ["other tools", "explanation/alternatives", 2],
  ["planning a training", "how-to/planning", 1],
  ["memory limit", "tutorial/memory-limit", 3],
  ["GRPO", "how-to/rl", 2],
  ["dead worker", "how-to/failures", 2],
  ["vision encoder", "how-to/encoders", 2],
  ["adapters LoRA", "how-to/adapters", 3],
  ["ten questions", "tutorial/classroom", 3],
];

const folder = path.join(process.argv[2], "_static");
const element = { content: "", lastChild: null };
const sandbox = {
  console, URLSearchParams, SPHINX_HIGHLIGHT_ENABLED: false,
  document: { documentElement: { dataset: { content_root: "" } }, addEventListener() {}, createElement: () => element, querySelector: () => element, getElementById: () => element },
  DOCUMENTATION_OPTIONS: { BUILDER: "html", FILE_SUFFIX: ".html", LINK_SUFFIX: ".html", SHOW_SEARCH_SUMMARY: false, URL_ROOT: "" },
  _ready() {},
  _: (text) => text,
};
sandbox.window = sandbox;
sandbox.location = { search: "" };
vm.createContext(sandbox);
const load = (file) => vm.runInContext(fs.readFileSync(file, "utf8"), sandbox, { filename: file });
for (const name of ["documentation_options.js", "language_data.js", "searchtools.js"]) {
  const file = path.join(folder, name);
  if (fs.existsSync(file)) load(file);
}
const index = fs.readFileSync(path.join(process.argv[2], "searchindex.js"), "utf8");
vm.runInContext(`Search._index = null; Search.setIndex = (index) => { Search._index = index; }; ${index}`, sandbox);

/** The names of pages that a search finds, the best first. */
function found(words) {
  sandbox.words = words;
  const results = vm.runInContext("Search._performSearch(...Search._parseQuery(words))", sandbox);
  // The page shows the last one first.
  return [...new Set(results.reverse().map((result) => result[0]))];
}

let failures = 0;
for (const [words, page, most] of WANTED) {
  const at = found(words).indexOf(page);
  if (at < 0 || at >= most) {
    console.log(`"${words}" finds ${page} at place ${at + 1}, behind: ${found(words).slice(0, 5).join(", ")}`);
    failures += 1;
  }
}
process.exit(failures === 0 ? 0 : 1);
