// A tab whose question is one table of keys: its fields in groups, the files that it names, and its answer.

import { Copier } from "page/copier.js";
import { button, headline, make, settled } from "page/dom.js";
import { Fields, described } from "page/fields.js";
import { bytes, saver } from "page/files.js";
import { Given } from "page/given.js";
import * as link from "page/link.js";
import * as state from "page/state.js";
import { commanded, called } from "page/written.js";
import { Work } from "page/work.js";

/** The most letters of files that a link carries. */
const MOST_IN_LINK = 12_000;

/**
 * What a tab asks, and how it shows the answer.
 * @typedef {object} Kind
 * @property {string} name how the library, the command line and Python call it, and the tab in the address
 * @property {string} title
 * @property {string} about what it answers, in a sentence or two
 * @property {string} act what the button says
 * @property {string[]} [lengths] keys that take the lengths of a file
 * @property {boolean} [beside] whether it is about the question of “Play”, and its keys stand beside those
 * @property {(answer: any, study: Study) => Node[]} shown the answer
 */

/** The tabs by the names of their questions. */
const begun = new Map();

/** Shows the question `text` in the tab `name`. */
export async function take(name, text) {
  await begun.get(name).show(text, link.step);
  state.change({ view: name });
}

/** Makes the tab of `kind`. @param {Kind} kind */
export async function study(kind, { engine }) {
  const [schema, { examples }, built] = await Promise.all([
    engine.ask({ ask: "schema", of: kind.name }), engine.ask({ ask: "examples", of: kind.name }), engine.ask({ ask: "built-in" })]);
  const tab = new Study(engine, kind, schema, examples, built);
  const panel = document.getElementById(kind.name);
  panel.classList.add("study");
  panel.append(...tab.parts());
  tab.given?.droppable(panel);
  begun.set(kind.name, tab);
  state.listen((changed) => { if (changed.has("view") && state.now.view === kind.name) tab.opened(); });
  addEventListener("hashchange", () => tab.restore());
  await tab.restore();
}

export class Study {
  constructor(engine, kind, schema, examples, built) {
    this.engine = engine;
    this.kind = kind;
    this.examples = examples;
    /** The question, whether its fields have changed since it was written, and the files that it may name. */
    this.text = "";
    this.pending = false;
    this.files = new Map();
    const all = described(schema), order = schema.order.map((name) => all.get(name));
    // Other questions name no files.
    const named = all.has("model");
    if (named) {
      all.get("model").suggested = built.models;
      all.get("machine").suggested = built.machines;
    }
    const written = settled(() => this.write(), 200), changed = () => {
      this.pending = true;
      written();
    };
    /** The fields of each group by its name, of which the first is not folded. */
    this.groups = new Map([...new Set(order.map((key) => key.group))].map((group) =>
      [group, new Fields(new Map(order.filter((key) => key.group === group).map((key) => [key.name, key])), changed)]));
    this.given = named ? new Given(this, (kind.lengths ?? []).map((name) => all.get(name))) : null;
    this.work = new Work(kind.act, (own, options) => this.answer(own, options));
    this.copier = new Copier();
    this.shown = make("div", { class: "answer", "aria-live": "polite" });
    this.note = make("p", { class: "note", hidden: true }, "The files are too long for the link: whoever opens it must give them again.");
  }

  parts() {
    const { title, about, name } = this.kind, [[, first], ...others] = this.groups;
    const box = ([group, fields]) => make("details", { class: "box" }, make("summary", {}, group), fields.element);
    const example = make("select", { "aria-label": `Examples: ${title}` }, make("option", { value: "" }, "Examples …"),
      ...this.examples.map((one) => make("option", { value: one.name }, one.title)));
    example.addEventListener("change", () => {
      const chosen = this.examples.find((one) => one.name === example.value);
      if (chosen) this.show(chosen.text, link.step);
    });
    this.written = make("textarea", { rows: 12, spellcheck: false, "aria-label": `The question as a file: ${title}` });
    this.written.addEventListener("change", () => this.show(this.written.value, link.step));
    const copy = (what, text) => button(what, async () => {
      await this.settle();
      this.copier.copy(text(), what);
    });
    return [
      make("h2", {}, title), make("p", {}, about), ...this.besides(), make("div", { class: "buttons" }, example),
      first.element, ...others.map(box), ...this.given ? [this.given.element] : [],
      make("details", { class: "box" }, make("summary", {}, "The question elsewhere"), this.written,
        make("div", { class: "buttons" }, saver("Question", `${name}.toml`, () => this.text), copy("Copy the link", () => location.href),
          copy("Copy as Python", () => called(name, this.values(), this.scenario())),
          copy("Copy for the command line", () => commanded(name, this.values(), this.scenario()))),
        this.copier.said, this.copier.shown),
      this.note, this.work.element, this.shown,
    ];
  }

  /** The question of “Play”, where this one is about it. */
  scenario() {
    return this.kind.beside ? state.now.scenario : undefined;
  }

  /** Shows that question, and makes an answer about another one an old one. */
  besides() {
    if (!this.kind.beside) return [];
    const asked = make("pre", {});
    state.listen((changed) => {
      if (!changed.has("scenario")) return;
      asked.textContent = state.now.scenario;
      this.shown.classList.add("stale");
    });
    return [make("details", { class: "box" }, make("summary", {}, "The question of “Play”"), asked)];
  }

  /** The keys that are given. */
  values() {
    return Object.assign({}, ...[...this.groups.values()].map((one) => one.values));
  }

  /** Gives keys the values of `changes`; null takes one out. */
  async change(changes) {
    for (const fields of this.groups.values()) {
      const own = { ...fields.values };
      for (const [name, value] of Object.entries(changes)) {
        if (!fields.controls.has(name)) continue;
        if (value === null) delete own[name];
        else own[name] = value;
      }
      fields.show(own);
    }
    this.unfold();
    await this.write(link.step);
  }

  /** Asks the question with `changes`. */
  async tried(changes) {
    await this.change(changes);
    this.work.begin.scrollIntoView({ block: "start" });
    await this.work.run();
  }

  /** Makes the question of the fields the one that is asked. */
  async write(keep = link.write) {
    this.pending = false;
    try {
      const { text } = await this.engine.ask({ ask: "text", keys: this.values() });
      this.hold(text, keep);
      this.work.complain("");
    } catch (error) {
      this.work.complain(error.text || error.message);
    }
  }

  /** Has the question say what the fields do. */
  async settle() {
    if (this.pending) await this.write();
  }

  /** The files that the question names. */
  named() {
    return new Map([...this.files].filter(([name]) => this.text.includes(name)));
  }

  /** Holds the question `text`, in the link, too, which `keep` changes. */
  hold(text, keep = link.write) {
    this.text = text;
    if (document.activeElement !== this.written) this.written.value = text;
    this.shown.classList.add("stale");
    const files = this.named(), { name } = this.kind;
    const long = [...files.values()].reduce((sum, content) => sum + content.length, 0) > MOST_IN_LINK;
    this.note.hidden = !long;
    const texts = Object.fromEntries([...files].map(([file, content]) => [file, new TextDecoder().decode(content)]));
    keep({ ...link.read(), [name]: text, [`${name}-files`]: long || !files.size ? "" : JSON.stringify(texts) });
  }

  /** Shows the question `text` in the fields; one that is not a table of keys is held, too, and refused when it is asked. */
  async show(text, keep = link.write) {
    this.pending = false;
    this.hold(text, keep);
    try {
      const { keys } = await this.engine.ask({ ask: "keys", text });
      for (const fields of this.groups.values()) fields.show(keys);
      this.unfold();
      this.work.complain("");
    } catch (error) {
      this.work.complain(error.text || error.message);
    }
  }

  /** Unfolds the groups in which something is given. */
  unfold() {
    for (const { values, element } of this.groups.values()) {
      if (Object.keys(values).length) element.closest("details")?.setAttribute("open", "");
    }
  }

  restore() {
    const { [this.kind.name]: text, [`${this.kind.name}-files`]: files } = link.read();
    if (text === this.text) return undefined;
    for (const [name, content] of Object.entries(lent(files))) this.files.set(name, bytes(String(content)));
    return text ? this.show(text) : this.begin();
  }

  /** Shows the first example, without a word of it in the link. */
  begin() {
    const { text } = this.examples[0];
    return text === this.text ? undefined : this.show(text, () => {});
  }

  /** Answers the example when the tab is first opened. */
  opened() {
    if (this.text === this.examples[0].text && !this.answered) this.work.run();
    this.answered = true;
  }

  /** What asks the library about the question as it is now. */
  asker(engine = this.engine, options = {}) {
    const { text } = this, scenario = this.scenario();
    const files = scenario === undefined ? this.named() : new Map([...state.now.files, ...this.named()]);
    return (request) => engine.ask({ text, scenario, ...request }, { ...options, files });
  }

  /** Asks the library, and shows what it says. */
  async answer(engine, options) {
    await this.settle();
    this.groups.forEach((fields) => fields.settle());
    try {
      const answer = await this.asker(engine, options)({ ask: this.kind.name });
      this.shown.classList.remove("stale");
      this.shown.replaceChildren(
        ...headline(answer.sheet),
        ...(answer.warnings || []).map((one) => make("p", { class: "note" }, one)),
        ...this.kind.shown(answer, this));
      return answer.answer.interrupted ? "Stopped: over what was done by then." : "Done.";
    } catch (error) {
      if (error.failure?.key) [...this.groups.values()].some((fields) => fields.complain(error.failure.key, error.text));
      throw error;
    }
  }
}

/** The files that a link lends, as JSON. */
function lent(text) {
  try {
    const files = JSON.parse(text || "{}");
    return typeof files === "object" && files ? files : {};
  } catch {
    return {};
  }
}

/** Buttons that save an answer: as JSON, its rows as CSV, its picture if it has one. */
export function downloads(name, { answer, csv, svg }, ...more) {
  return make("div", { class: "buttons" },
    saver("JSON", `${name}.json`, () => `${JSON.stringify(answer, null, 2)}\n`), saver("CSV", `${name}.csv`, () => csv),
    svg ? saver("Picture", `${name}.svg`, () => svg) : null, ...more);
}
