// Files that a question names: the config.json of a model, a machine, and lengths of samples.

import { button, make } from "page/dom.js";
import { bytes, droppable, read } from "page/files.js";

/** The name of a config.json on the page. */
const CONFIG = "config.json";
/** How lengths are taken from a file: their prefix in files, and in words. */
const WAYS = [["file", "drawn at random"], ["in-order", "in order"]];

/** The name of a file of lengths that were pasted as `text`: rows of JSON, a table with a header, or a list of numbers. */
function called(text) {
  const [first] = text.trimStart().split("\n", 1);
  if (first.startsWith("{")) return "pasted.jsonl";
  if (/^[\d\s,]*(#.*)?$/.test(first)) return "pasted.txt";
  return first.includes("\t") ? "pasted.tsv" : "pasted.csv";
}

/** Takes files of a question `study`, of which `keys` take lengths. */
export class Given {
  constructor(study, keys) {
    this.study = study;
    this.keys = keys;
    this.pasted = make("textarea", { rows: 4, spellcheck: false, "aria-label": `${keys.length ? "Lengths or a" : "A"} config.json: ${study.kind.title}`,
      placeholder: `Paste ${keys.length ? "lengths (numbers, CSV or JSONL) or " : ""}a config.json of Hugging Face, or drop files` });
    const choose = make("input", { type: "file", "aria-label": `Choose a file: ${study.kind.title}` });
    choose.addEventListener("change", () => this.dropped([...choose.files]));
    this.told = make("p", { class: "told", role: "status" });
    this.fault = make("p", { class: "fault", role: "alert" });
    this.column = make("select", {});
    this.key = make("select", {}, ...keys.map(({ name, label }) => make("option", { value: name }, label)));
    this.way = make("select", {}, ...WAYS.map(([value, words]) => make("option", { value }, words)));
    const labelled = (words, field) => make("label", {}, `${words} `, field);
    this.columns = labelled("Column", this.column);
    this.lengths = make("div", { class: "buttons", hidden: true }, this.columns,
      keys.length > 1 ? labelled("For", this.key) : null, labelled("Taken", this.way), button("Take these lengths", () => this.use()));
    this.element = make("details", { class: "box" }, make("summary", {}, keys.length ? "Lengths, models and machines of your own" : "Models and machines of your own"),
      keys.length ? make("p", { class: "help" }, "Lengths are numbers of tokens: a list, or a column of CSV, JSONL or Parquet. A list in JSONL counts as long as it is.") : null,
      this.pasted, make("div", { class: "buttons" }, button("Take what is pasted", () => this.paste()), choose), this.lengths, this.fault, this.told);
  }

  /** Has files taken that are dropped on `panel`. */
  droppable(panel) {
    droppable(panel, (files) => this.dropped(files));
  }

  paste() {
    const text = this.pasted.value;
    return this.tried(() => text.trim() ? this.take(called(text), bytes(text)) : Promise.reject(new Error("Nothing is pasted.")));
  }

  dropped(files) {
    return this.tried(async () => {
      for (const [name, content] of await read(this.study.engine, files)) await this.take(name, content);
    });
  }

  /** Does `act`, and says what goes wrong. */
  async tried(act) {
    this.element.setAttribute("open", "");
    this.fault.textContent = this.told.textContent = "";
    try {
      await act();
    } catch (error) {
      this.fault.textContent = error.text || error.message;
    }
  }

  /** Takes the file `name`: a config.json, a machine, a question of this tab, or lengths. */
  async take(name, content) {
    const { study } = this, files = new Map([[name, content]]);
    if (/\.json$/i.test(name) || !this.keys.length && name.startsWith("pasted.") || name === "pasted.jsonl" && await this.is("model-config", name, files)) {
      study.files.set(CONFIG, content);
      await study.change({ model: CONFIG });
      this.told.textContent = `The model is that of ${name}.`;
    } else if (/\.toml$/i.test(name) && await this.is("machine", name, files)) {
      study.files.set(name, content);
      await study.change({ machine: name });
      this.told.textContent = `The machine is that of ${name}.`;
    } else if (/\.toml$/i.test(name)) {
      await study.show(new TextDecoder().decode(content));
      this.told.textContent = `The question is that of ${name}.`;
    } else if (!this.keys.length) {
      throw new Error(`${name} is not a config.json, no machine and no question.`);
    } else {
      await this.offer(name, content, files);
    }
  }

  /** Whether the file `name` is of the kind `kind`. */
  async is(kind, name, files) {
    const found = await this.study.engine.ask({ ask: "kind", file: name }, { files }).catch(() => ({ kind: null }));
    return found.kind === kind;
  }

  /** Offers the columns of a file of lengths, and takes the first that may be one. */
  async offer(name, content, files) {
    const { columns } = await this.study.engine.ask({ ask: "columns", file: name }, { files });
    this.study.files.set(name, content);
    this.file = name;
    const likely = columns.find((one) => /len|token/i.test(one)) ?? columns[0];
    this.column.replaceChildren(...columns.map((one) => make("option", { value: one, selected: one === likely }, one)));
    this.columns.hidden = !columns.length;
    this.lengths.hidden = false;
    await this.use();
  }

  /** Gives the key the lengths that were chosen. */
  async use() {
    const key = this.keys.find(({ name }) => name === this.key.value), column = this.column.value;
    const where = column ? `${this.file}:${column}` : this.file;
    await this.study.change({ [key.name]: `${this.way.value}:${where}` });
    this.told.textContent = `“${key.label}” are those of ${column ? `the column ${column} of ` : ""}${this.file}.`;
  }
}
