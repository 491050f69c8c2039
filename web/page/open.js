// The tab "Open a file": what was dropped or chosen is told apart by its content, and answered.

import { button, make, picture, sheet } from "page/dom.js";
import { Engine } from "page/engine.js";
import { droppable, read, saver } from "page/files.js";
import * as plan from "page/plan.js";
import { changed, lend, put } from "page/question.js";
import * as state from "page/state.js";
import { take } from "page/study.js";
import { Work } from "page/work.js";

/** The most files that are opened at once: a trace has one for each rank. */
const MOST_FILES = 512;

/** The most rows of a table that are shown. */
const MOST_ROWS = 200;

/** The lines of a CSV file by cell. */
const cells = (content) => new TextDecoder().decode(content).trim().split(/\r?\n/)
  .map((line) => [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].slice(0, -1).map(([, cell]) => cell.replaceAll(/^"|"$/g, "").replaceAll('""', '"')));

/** Makes the tab. */
export async function begin() {
  const shown = make("div", { class: "answer", "aria-live": "polite" });
  const opener = new Opener(shown);
  const choose = make("input", { type: "file", multiple: true, id: "choose" });
  choose.addEventListener("change", () => opener.open([...choose.files]));
  const zone = make("div", { class: "drop" }, make("label", { htmlFor: "choose" }, "Drop files here, or choose them: "), choose);
  droppable(document.getElementById("open"), (files) => opener.open(files));
  document.getElementById("open").append(
    make("h2", {}, "Files of your own"),
    make("p", {}, "A scenario, a schedule (as text or as torch reads it), a profile, a trace (Parquet or JSON, one file or one for each rank), a timeline or two of them, a certificate, a question for the planner or another tab, the config.json of a model, a machine or a cluster, the launch script and the log of a run. Nothing is sent anywhere: the files are read by this page, in this browser."),
    zone, shown);
}

/** Opens files. What breaks the library down ends its worker, and nothing else. */
class Opener {
  constructor(shown) {
    this.shown = shown;
    this.engine = new Engine();
    this.known = new Map();
  }

  async open(files) {
    const wait = make("p", { role: "status" }, "Reading …");
    this.shown.replaceChildren(wait);
    if (files.length > MOST_FILES) return this.refuse(wait, `${files.length} files`, `At most ${MOST_FILES} files are opened at once.`);
    const told = [];
    for (const file of files) {
      let content;
      try {
        content = await read(this.engine, [file]);
        told.push({ name: file.name, content, ...await this.engine.ask({ ask: "kind", file: file.name }, { files: content }) });
      } catch (error) {
        const [columns, ...rows] = /\.csv$/i.test(file.name) && content ? cells(content.get(file.name)) : [[]];
        if (columns.filter((one) => /[a-z]{3}/i.test(one)).length < 2) this.refuse(wait, file.name, error.text || error.message);
        else await this.show(wait, file.name, `a table of ${rows.length} rows, such as debubble writes, and no schedule`, () => Promise.resolve(sheet([{ header: columns, rows: rows.slice(0, MOST_ROWS) }])));
      }
    }
    const traces = told.filter((one) => one.kind === "trace");
    if (traces.length) await this.show(wait, traces.map((one) => one.name).join(", "), traces[0].words, () => this.replayed(traces));
    const runs = told.filter((one) => one.kind === "run");
    if (runs.length) await this.show(wait, runs.map((one) => one.name).join(", "), runs[0].words, () => this.advised(runs));
    for (const one of told.filter((other) => other.kind !== "trace" && other.kind !== "run")) await this.show(wait, one.name, one.words, () => this.answered(one));
    wait.remove();
    return undefined;
  }

  /** Shows what `answer` gives under the name of a file, or why there is nothing. */
  async show(before, name, words, answer) {
    try {
      const parts = await answer();
      before.before(make("section", { class: "opened" }, make("h3", {}, name), make("p", {}, `This is ${words}.`), ...parts));
    } catch (error) {
      this.refuse(before, name, error.text || error.message);
    }
  }

  refuse(before, name, text) {
    before.before(make("section", { class: "opened" }, make("h3", {}, name), make("pre", { class: "error", role: "alert" }, text)));
  }

  async answered(one) {
    const act = ACTS[one.kind];
    if (!act) throw new Error("The page knows no use for it. It opens scenarios, schedules, profiles, traces, timelines, certificates, plans, questions of the other tabs, configs, machines and clusters.");
    return act(one, this);
  }

  ask(request, content) {
    return this.engine.ask(request, { files: content });
  }

  async replayed(traces) {
    const files = new Map(traces.flatMap((one) => [...one.content]));
    const answer = await this.engine.ask({ ask: "replay", files: traces.map((one) => one.name) }, { files });
    return [...notes(answer), ...sheet(answer.sheet), json(answer, "replay.json")];
  }

  /** What to change first of the run that these files are of. */
  async advised(runs) {
    const files = new Map(runs.flatMap((one) => [...one.content]));
    const shown = make("div");
    const { machines } = await this.engine.ask({ ask: "built-in" });
    const said = [...files].map(([name, content]) => `${name}\n${new TextDecoder().decode(content)}`).join("\n").toLowerCase();
    const own = machines.filter((name) => new RegExp(`(^|[^a-z0-9])${name}([^a-z0-9]|$)`).test(said)).at(-1) ?? "h100";
    const choose = make("select", { id: "run-machine" }, ...machines.map((name) => make("option", { value: name, selected: name === own }, name)));
    const answer = async () => {
      const found = await this.engine.ask({ ask: "advise", files: runs.map((one) => one.name), machine: choose.value }, { files });
      shown.replaceChildren(...[...found.notes, ...found.warnings].map((one) => make("p", { class: "note" }, one)), ...sheet(found.sheet),
        ...(found.svg ? [picture(found.svg, "Gains of changes")] : []),
        make("div", { class: "buttons" }, ...found.files.map(([name, text]) => saver(name, name, () => text))));
    };
    choose.addEventListener("change", () => answer().catch((error) => shown.replaceChildren(make("pre", { class: "error", role: "alert" }, error.text || error.message))));
    await answer();
    return [make("p", {}, make("label", { htmlFor: "run-machine" }, "Machine of the run: "), choose), shown];
  }
}

const notes = (answer) => (answer.warnings || []).map((one) => make("p", { class: "note" }, one));
const json = (answer, name) => make("div", { class: "buttons" }, saver("Answer as JSON", name, () => JSON.stringify(answer, null, 2)));
const act = (text, does) => make("div", { class: "buttons" }, guarded(text, does));

/** A button whose failure is said beside it. */
function guarded(text, does) {
  const fault = make("span", { class: "fault", role: "alert" });
  const one = button(text, async () => {
    fault.textContent = "";
    try {
      await does();
    } catch (error) {
      fault.textContent = error.text || error.message;
    }
  });
  return make("span", {}, one, fault);
}

/** Asks the question of a file, which is one of the kind `name`. */
const asks = (name) => async ({ text }) => [act("Ask this question", () => take(name, text))];

/** What is done with a file, by its kind: elements to show. */
const ACTS = {
  rl: asks("rl"),
  fsdp: asks("fsdp"),
  encoder: asks("encoder"),
  failures: asks("failures"),
  scenario: async ({ text }) => {
    state.change({ scenario: text, view: "play" });
    return [make("p", {}, "It is the question of “Play” now.")];
  },
  sweep: async ({ name, content }) => {
    const work = new Work("Answer all questions", async (engine, options) => {
      const { csv, rows, questions } = await engine.ask({ ask: "sweep", file: name }, { ...options, files: content });
      done.replaceChildren(saver("Rows as CSV", "rows.csv", () => csv));
      return `${rows} of ${questions} questions are answered.`;
    });
    const done = make("div", { class: "buttons" });
    return [work.element, done];
  },
  schedule: async ({ name, content }, opener) => {
    const order = await opener.ask({ ask: "order", file: name }, content);
    const shape = { stages: order.stages, microbatches: order.microbatches, chunks: order.chunks > 1 ? order.chunks : null };
    const show = async () => put(await changed(state.now.scenario, shape), name, content.get(name));
    return [make("p", {}, `${order.passes} passes, ${order.stages} stages, ${order.microbatches} microbatches, ${order.chunks} chunks per stage.`),
      act("Beside the named schedules in Play, with these sizes", show)];
  },
  profile: async ({ name, content }, opener) => {
    const profile = await opener.ask({ ask: "profile", file: name }, content);
    const sizes = profile.trainer ? { stages: profile.stages, microbatches: profile.microbatches } : {};
    const times = Object.fromEntries(["forward", "backward-input", "backward-weight", "backward", "hop"].map((key) => [key, null]));
    const use = async () => {
      lend(name, content.get(name));
      state.change({ scenario: await changed(state.now.scenario, { ...times, ...sizes, profile: name }), view: "play" });
    };
    return [...notes(profile), ...(profile.sheet ? sheet(profile.sheet) : []),
      make("p", {}, profile.trainer ? "Its times take the place of those of the question." : "Its times take the place of those of the question, which then needs the key layers."),
      act("Use it in Play", use)];
  },
  cluster: async ({ name, content }) => [act("Use it in Play", async () => {
    lend(name, content.get(name));
    state.change({ scenario: await changed(state.now.scenario, { cluster: name }), view: "play" });
  })],
  machine: async ({ name, content }) => [act("Use it in Plan", async () => {
    await plan.take("machine", new TextDecoder().decode(content.get(name)), name);
    state.change({ view: "plan" });
  })],
  plan: async ({ text }) => [act("Ask it in Plan", async () => {
    await plan.take("plan", text);
    state.change({ view: "plan" });
  })],
  "model-config": async ({ text }) => [act("Plan this model", async () => {
    await plan.take("model-config", text);
    state.change({ view: "plan" });
  })],
  certificate: async ({ name, content }, opener) => {
    const verdict = await opener.ask({ ask: "verify", file: name }, content);
    return [make("p", { class: verdict.holds ? "holds" : "fault" }, verdict.holds ? "All of it holds." : "It does not hold."), ...sheet(verdict.sheet)];
  },
  timeline: async ({ name, content }, opener) => {
    const line = await opener.ask({ ask: "timeline", file: name }, content);
    const before = opener.known.get(line.source === "measured" ? "simulated" : "measured") ?? opener.known.get(line.source);
    opener.known.set(line.source, { name, content, source: line.source });
    const facts = `${line.name}, ${line.source} on ${line.device}: ${line.stages} stages, ${line.microbatches} microbatches, ${line.steps} steps.`;
    const drawn = line.svg ? picture(line.svg, `Timeline of ${line.name}`) : make("p", { class: "note" }, "It has too many passes to be drawn here.");
    const parts = [make("p", {}, facts), drawn];
    if (line.profile) parts.push(make("h4", {}, "The profile of the trainer"), ...sheet(line.sheet), make("div", { class: "buttons" }, saver("Profile", "profile.toml", () => line.profile)));
    if (before && before.name !== name) parts.push(...await compared(opener, before, { name, content, source: line.source }));
    else parts.push(make("p", { class: "note" }, "Open another timeline to compare it with this one."));
    return parts;
  },
};

/** Two timelines, a prediction and a measurement. */
async function compared(opener, one, other) {
  const [predicted, measured] = one.source === "measured" && other.source !== "measured" ? [other, one] : [one, other];
  const files = new Map([...one.content, ...other.content]);
  const answer = await opener.engine.ask({ ask: "compare", predicted: predicted.name, measured: measured.name }, { files });
  return [make("h4", {}, `${predicted.name} against ${measured.name}`), ...sheet(answer.sheet), picture(answer.svg, "Both timelines on one time axis"), json(answer.comparison, "comparison.json")];
}
