// The tab "Plan": which set-up trains a model on which machines.

import { button, make, settled } from "page/dom.js";
import { Fields, described, resolved } from "page/fields.js";
import { bytes, droppable, read, saver } from "page/files.js";
import * as link from "page/link.js";
import * as state from "page/state.js";
import { Work } from "page/work.js";

/** The tables of a question besides its model and clusters. */
const TABLES = ["setup", "search", "training", "lengths", "noise"];
/** The keys that most questions have, and those that a question about another model keeps. */
const FIRST = ["tokens", "batch", "sequence", "deadline-days", "budget", "framework"], KEPT_KEYS = ["tokens", "batch"];
/** The name of a config.json on the page, and the most of it that a link carries. */
const CONFIG = "config.json", MOST_IN_LINK = 12_000;

/** The folder of the question whose answer others are held against. */
const KEPT = "kept/";

/** Makes the tab. */
export async function begin({ engine }) {
  const [schema, { examples }, built] = await Promise.all([
    engine.ask({ ask: "schema", of: "plan" }), engine.ask({ ask: "examples", of: "plan" }), engine.ask({ ask: "built-in" })]);
  const tab = new Plan(engine, schema, examples, built);
  document.getElementById("plan").append(...tab.parts());
  addEventListener("hashchange", () => tab.restore());
  opened = tab;
  state.listen((changed) => { if (changed.has("view") && state.now.view === "plan") tab.opened(); });
  await tab.restore();
}

let opened = null;

/** Takes a file that was opened: a `plan`, the `config` of a model or a `machine`. */
export function take(kind, text, name) {
  return opened.take(kind, text, name);
}

class Plan {
  constructor(engine, schema, examples, built) {
    this.engine = engine;
    this.schema = schema;
    this.examples = examples;
    /** The question, the config.json of its model, and the files of machines. */
    this.text = "";
    this.config = "";
    this.files = new Map();
    /** The files of the question whose answer others are held against, in a folder of their own. */
    this.kept = new Map();
    const edited = settled(() => this.edited(), 200);
    const table = (name) => described(schema, schema.properties[name]);
    const all = described(schema);
    // A `config.json` says how long sequences can be, which is more than most trainings use.
    all.get("sequence").initial = "at most 4096, by the config.json";
    this.fields = { "": new Fields(all, edited, { skip: ["model", "cluster"], first: FIRST }) };
    for (const name of TABLES) this.fields[name] = new Fields(table(name), edited);
    const sizes = resolved(schema, schema.properties.model).anyOf.map((one) => resolved(schema, one)).find((one) => one.properties);
    this.sizes = new Fields(described(schema, sizes), edited);
    this.machines = new Machines(schema, built.machines, edited);
    this.work = new Work("Plan", (own, options) => this.answer(own, options));
    this.lead = make("div", { class: "answer", "aria-live": "polite" });
    this.shown = make("div", { class: "answer", tabIndex: -1 });
    this.note = make("p", { class: "note", hidden: true });
    this.banner = make("p", { class: "banner", role: "status", hidden: true });
  }

  parts() {
    const open = (name) => {
      const { title, description } = resolved(this.schema, this.schema.properties[name]);
      return make("details", { class: "box" }, make("summary", { title: description }, title), this.fields[name].element);
    };
    this.written = make("textarea", { rows: 12, spellcheck: false, "aria-label": "The question as a file" });
    this.written.addEventListener("change", () => this.show(this.written.value, this.config));
    return [
      make("h2", {}, "Machines for a model"),
      make("p", {}, "Searches tensor, pipeline, context, expert and data parallelism, schedules and recomputation for a model and machines, and ranks the set-ups by time, cost and memory."),
      this.lead,
      make("h3", {}, "The model"), this.model(), this.banner,
      make("h3", {}, "The machines"), this.machines.element,
      make("h3", {}, "The training"), this.fields[""].element,
      ...TABLES.map(open),
      make("details", { class: "box" }, make("summary", {}, "The question as a file"), this.written,
        make("div", { class: "buttons" }, saver("Question", "plan.toml", () => this.text))),
      this.note, this.work.element, this.shown,
    ];
  }

  /** The model: a config.json of Hugging Face, or sizes. */
  model() {
    this.pasted = make("textarea", { rows: 6, spellcheck: false, placeholder: "Paste a config.json of Hugging Face, or drop it here", "aria-label": "config.json of the model" });
    const typed = settled((anew) => this.configured(this.pasted.value, anew), 300);
    this.pasted.addEventListener("input", (event) => typed(/** @type {InputEvent} */ (event).inputType === "insertFromPaste"));
    droppable(this.pasted, (files) => this.dropped(files));
    const file = make("input", { type: "file", accept: ".json,application/json", "aria-label": "Choose a config.json" });
    file.addEventListener("change", () => this.dropped([...file.files]));
    this.byHand = make("details", { class: "box" }, make("summary", {}, "Sizes by hand"), this.sizes.element);
    const example = make("select", { "aria-label": "Examples of plans" }, make("option", { value: "" }, "Examples …"),
      ...this.examples.map(({ name, title }) => make("option", { value: name }, title)));
    example.addEventListener("change", () => {
      const chosen = this.examples.find(({ name }) => name === example.value);
      if (chosen) this.show(chosen.text, "", link.step);
    });
    return make("div", {}, this.pasted, make("div", { class: "buttons" }, file, example), this.byHand);
  }

  async dropped(files) {
    try {
      const [content] = (await read(this.engine, files.slice(0, 1))).values();
      if (content) await this.configured(new TextDecoder().decode(content), true);
    } catch (error) {
      this.work.complain(error.text || error.message);
    }
  }

  /** Takes the config.json `text`: where it is of another model than the one before, as a new question. */
  configured(text, anew = false) {
    const other = anew || !this.config;
    this.config = text.trim();
    this.pasted.value = text;
    if (this.config && other) this.renew();
    return this.edited(other ? link.step : link.write);
  }

  /** Leaves of the question what any model is asked, and says what that is. */
  renew() {
    const all = this.fields[""].values, kept = Object.fromEntries(KEPT_KEYS.filter((key) => key in all).map((key) => [key, all[key]]));
    this.fields[""].show(kept);
    this.sizes.show({});
    for (const name of TABLES) this.fields[name].show({});
    const clusters = this.machines.values().filter((one) => one.machine).map(({ machine, devices }) => `${[devices].flat().join(" or ")} ${machine}`);
    const words = [...Object.entries(kept).map(([key, value]) => `${key} ${value}`), ...clusters];
    this.banner.textContent = `A new question. Kept from the one before: ${words.join(", ")}. The recipe is the default one, in 16 bits.`;
    this.banner.hidden = false;
  }

  /** What the fields ask, as the keys of a file. */
  keys() {
    /** @type {Record<string, any>} */
    const keys = { ...this.fields[""].values };
    keys.model = this.config ? CONFIG : this.sizes.values;
    keys.cluster = this.machines.values();
    for (const name of TABLES) {
      if (Object.keys(this.fields[name].values).length) keys[name] = this.fields[name].values;
    }
    return keys;
  }

  /** Makes the question of the fields the one that is asked. */
  async edited(keep = link.write) {
    try {
      const { text } = await this.engine.ask({ ask: "text", keys: this.keys() });
      this.hold(text, keep);
      this.work.complain("");
    } catch (error) {
      this.work.complain(error.text || error.message);
    }
  }

  /** Holds the question `text`, in the link, too, which `keep` changes. */
  hold(text, keep = link.write) {
    this.text = text;
    if (document.activeElement !== this.written) this.written.value = text;
    for (const one of [this.lead, this.shown]) one.classList.add("stale");
    const small = this.config.length <= MOST_IN_LINK;
    this.note.hidden = small;
    this.note.textContent = "The config.json is too long for the link: whoever opens it must paste the file again.";
    keep({ ...link.read(), plan: text, config: small ? this.config : "" });
  }

  /** Shows the question `text` with its `config` in the fields. */
  async show(text, config, keep = link.write) {
    const example = this.examples.find((one) => one.text === text);
    this.banner.textContent = example ? `An example: ${example.title}. A model that you paste begins a question of your own.` : "";
    this.banner.hidden = !example;
    try {
      const { keys } = await this.engine.ask({ ask: "keys", text });
      this.config = typeof keys.model === "string" ? config : "";
      this.pasted.value = this.config;
      this.fields[""].show(keys);
      this.sizes.show(typeof keys.model === "object" ? keys.model : {});
      this.machines.show(keys.cluster ?? []);
      for (const name of TABLES) this.fields[name].show(keys[name]);
      this.hold(text, keep);
      this.work.complain("");
    } catch (error) {
      this.work.complain(error.text || error.message);
    }
  }

  restore() {
    const { plan, config } = link.read();
    if (plan === this.text && (config ?? "") === this.config) return undefined;
    return plan ? this.show(plan, config ?? "") : this.begin();
  }

  /** Shows the first example, without a word of it in the link. */
  begin() {
    return this.show(this.examples[0].text, "", () => {});
  }

  /** Answers the example when the tab is first opened. */
  opened() {
    if (this.text === this.examples[0].text && !this.answered) this.work.run();
    this.answered = true;
  }

  /** Takes a file that was opened. */
  async take(kind, text, name) {
    if (kind === "plan") return this.show(text, this.config);
    if (kind === "model-config") return this.configured(text, true);
    this.files.set(name, bytes(text));
    this.machines.add(name);
    return this.edited();
  }

  /** Asks the library, and shows what it says. */
  async answer(engine, options) {
    const own = new Map([...this.files, ["plan.toml", bytes(this.text)], [CONFIG, bytes(this.config)]]);
    const files = new Map([...own, ...this.kept]);
    const against = this.kept.size ? `${KEPT}plan.toml` : undefined;
    try {
      const answer = await engine.ask({ ask: "plan", file: "plan.toml", against }, { ...options, files });
      this.lead.classList.remove("stale");
      this.shown.classList.remove("stale");
      this.lead.replaceChildren(...answer.headline.split("\n").map((one) => make("p", { class: "lead" }, one)),
        button("Show the plan", () => { this.shown.focus(); this.shown.scrollIntoView(); }));
      this.shown.replaceChildren(...this.said(answer), ...this.beside(answer, own));
      return answer.interrupted ? "Stopped: the best of the set-ups by then." : "Done.";
    } catch (error) {
      this.blame(error);
      throw error;
    }
  }

  /** Says beside the field of a key what is wrong with it; keys of a table are told as `training.frozen`. */
  blame({ failure, text }) {
    const [name, table] = (failure?.key ?? "").split(".").reverse();
    const own = table === "model" ? this.sizes : this.fields[table ?? ""];
    [own, ...Object.values(this.fields), this.sizes].some((one) => one?.complain(name, text));
  }

  /** The answer beside the one that was kept, and buttons to keep this one, whose files are `own`, or none. */
  beside(answer, own) {
    const hold = (files, said) => () => {
      this.kept = new Map([...files].map(([name, content]) => [KEPT + name, content]));
      this.note.hidden = false;
      this.note.textContent = said;
    };
    return [
      make("h3", {}, "Beside another"),
      answer.against ? make("pre", { tabIndex: 0, "aria-label": "The answer that was kept, and this one" }, answer.against) : null,
      make("div", { class: "buttons" },
        button("Keep it to compare", hold(own, "Kept: the next answer stands beside this one.")),
        answer.against ? button("Compare no more", hold(new Map(), "Nothing is kept.")) : null),
    ].filter(Boolean);
  }

  said(answer) {
    const notes = (answer.warnings || []).map((one) => make("p", { class: "note" }, one));
    const files = answer.export.map(([name, content]) => saver(name, name, () => content));
    return [
      ...notes, planned(answer.page),
      ...answer.runs || !answer.taken.length ? [] : [make("p", { class: "note" }, "No framework runs this plan: there is no script that would train with it.")],
      make("div", { class: "buttons" }, saver("Plans as CSV", "plans.csv", () => answer.csv), saver("Page", "plans.html", () => answer.page),
        ...answer.svg ? [saver("Picture", "plans.svg", () => answer.svg)] : [], ...files),
    ];
  }
}

/** The page of an answer, as the command line writes it, within this one: its styles hold for it alone, its title is a heading
 *  of the tab, and days against dollars are folded. */
function planned(page) {
  const { body, head } = new DOMParser().parseFromString(page, "text/html");
  const style = make("style", {}, `.planned { ${head.querySelector("style").textContent} }`), main = body.querySelector("main");
  const title = main.querySelector("h1");
  title.replaceWith(make("h2", {}, title.textContent));
  const plot = [...main.querySelectorAll("figure")].find((one) => one.querySelector("h3").textContent === "Days against dollars");
  if (plot) {
    const folded = make("details", {}, make("summary", {}, plot.querySelector("h3").textContent));
    plot.replaceWith(folded);
    folded.append(plot);
  }
  return make("div", { class: "planned" }, style, ...main.childNodes);
}

/** The clusters to choose from. */
class Machines {
  constructor(schema, names, changed) {
    this.all = described(schema, schema.properties.cluster.items);
    this.all.get("machine").choices = names;
    this.names = names;
    this.changed = changed;
    this.entries = [];
    this.kept = [];
    this.list = make("div", {});
    this.element = make("div", {}, this.list, make("div", { class: "buttons" }, button("Add a cluster", () => {
      this.add(this.names[0]);
      this.changed();
    })));
  }

  /** Adds a cluster of the machine `name`, a built-in one or a file. */
  add(name) {
    if (!this.names.includes(name)) this.names.push(name);
    this.entry({ machine: name, devices: [256] });
  }

  show(clusters) {
    this.entries = [];
    this.list.replaceChildren();
    // Clusters of several kinds of machines have no fields: they stay as the file has them.
    this.kept = clusters.filter((one) => one.parts);
    clusters.filter((one) => !one.parts).forEach((one) => this.entry(one));
    if (this.kept.length) this.list.append(make("p", { class: "note" }, `and ${this.kept.length} of several kinds of machines, as the file below says`));
  }

  entry(cluster) {
    const fields = new Fields(this.all, this.changed, { only: ["machine", "devices"] });
    fields.show(cluster);
    this.entries.push(fields);
    const remove = button("Remove", () => {
      this.entries = this.entries.filter((one) => one !== fields);
      row.remove();
      this.changed();
    });
    const row = make("div", { class: "cluster" }, fields.element, remove);
    this.list.append(row);
  }

  values() {
    return [...this.entries.map((one) => one.values), ...this.kept];
  }
}
