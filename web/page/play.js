// The tab "Play": schedules side by side, drawn while their question changes.

import { Engine, Latest } from "page/engine.js";
import { button, make, picture, settled, sheet } from "page/dom.js";
import { Form } from "page/form.js";
import { Gantts } from "page/gantts.js";
import { Headline } from "page/headline.js";
import { pareto, paretoTable } from "page/pareto.js";
import { Results } from "page/results.js";
import { Schedules } from "page/schedules.js";
import * as search from "page/search.js";
import { Share } from "page/share.js";
import * as link from "page/link.js";
import * as state from "page/state.js";

/** Milliseconds without a change after which details are asked for, and after which work can be stopped. */
const REST = 250, SLOW = 600;

/** What stands before the source of a question that was changed. */
const BEGUN = "changed; at first: ";
/** The message where no schedule is chosen. */
const NONE = "No schedule is chosen: tick one in the list “Schedules”.";

/** Makes the tab. */
export async function begin({ engine, examples }) {
  const [schema, { groups }, { keys }] = await Promise.all([engine.ask({ ask: "schema", of: "scenario" }),
    engine.ask({ ask: "schedules" }), engine.ask({ ask: "keys", text: examples[0].text })]);
  const play = shown = new Play({ engine, examples, schema, groups, usual: keys.schedule });
  document.getElementById("play").append(play.element);
  state.listen((changed, by) => {
    if (changed.has("view") && state.now.view === "play") play.seen();
    if (by !== play && (changed.has("scenario") || changed.has("files"))) play.load(state.now.scenario);
  });
}

let shown = null;

/** Puts the focus on the first timeline. */
export function enter() {
  shown.gantts.enter();
}

/** Whether `keys`, or some of their settings, name no schedule. @param {Record<string, any>} keys */
function lacks({ schedule, setting }) {
  const none = (names) => [names ?? []].flat().length === 0;
  return none(schedule) && (setting ?? [{}]).some((one) => none(one.schedule));
}

class Play {
  // `usual`: the schedules that are compared where a question names none.
  constructor({ engine, examples, schema, groups, usual }) {
    this.engine = engine;
    this.usual = usual;
    this.base = "";
    this.changes = {};
    this.keys = {};
    this.quick = new Latest(new Engine());
    this.quick.engine.warm();
    this.thorough = new Latest(new Engine());
    this.form = new Form(schema, (key, value) => this.change(key, value));
    this.schedules = new Schedules(groups, (names) => this.change("schedule", names), (on) => this.fit(on));
    this.share = new Share(engine);
    this.headline = new Headline({
      search: () => {
        state.change({ view: "search" });
        search.run();
      },
      share: () => this.share.open(),
      plan: () => state.change({ view: "plan" }),
      show: (name) => this.schedules.toggle(name, true),
    });
    this.look = settled((look) => this.note(look), REST);
    this.gantts = new Gantts((look) => this.look(look));
    this.gantts.tools.append(this.share.element);
    this.results = new Results((point) => this.explain(point));
    this.settle = settled(() => this.details(), REST);
    this.element = this.made(examples);
  }
  made(examples) {
    this.examples = make("select", { "aria-label": "Examples" }, make("option", { value: "" }, "Examples …"),
      ...examples.map(({ name, title }) => make("option", { value: name }, title)));
    this.examples.addEventListener("change", () => {
      const example = examples.find(({ name }) => name === this.examples.value);
      if (example) state.change({ scenario: example.text });
    });
    this.title = make("h2", {});
    this.source = make("p", { class: "help" });
    this.fault = make("pre", { class: "error", role: "alert", hidden: true });
    this.busy = make("p", { class: "busy", hidden: true, role: "status" });
    this.said = make("p", { class: "unseen", "aria-live": "polite" });
    this.text = make("textarea", { spellcheck: false, rows: 18, "aria-label": "The scenario as TOML" });
    this.text.addEventListener("input", settled(() => this.retype(), REST));
    this.pareto = make("details", { class: "box" }, make("summary", {}, "All schedules: bubble against memory"));
    this.plane = make("div");
    this.pareto.append(this.plane);
    this.pareto.addEventListener("toggle", () => this.all());
    this.why = make("section", { class: "box", hidden: true, "aria-label": "Why stages wait", tabIndex: -1 });
    const text = make("details", { class: "box" }, make("summary", {}, "The scenario as a file (TOML)"), this.text);
    const head = make("div", { class: "bar start" }, this.examples, this.whole());
    const boxes = [this.schedules.element, this.form.noise, this.form.rest, text];
    boxes.forEach((box) => box.classList.add("asked"));
    const side = make("div", { class: "side" }, head, this.form.played);
    this.answer = make("div", { class: "answer" }, this.headline.element, this.results.element, this.why,
      this.gantts.element, this.pareto);
    const main = make("div", { class: "main" }, this.title, this.source, this.fault, this.busy, this.said, this.answer);
    // On a narrow page the answer follows the sliders.
    const narrow = matchMedia("(max-width: 820px)");
    const place = () => (narrow.matches ? main : side).append(...boxes);
    narrow.addEventListener("change", place);
    place();
    // Fields are empty until there is a question.
    return make("div", { class: "split", hidden: true }, side, main);
  }
  // Keeps in the link which part of the timelines is shown.
  note(look) {
    if (!this.unseen && !document.getElementById("play").hidden) link.write({ ...link.read(), ...look });
    this.aim();
  }
  // In a frame of another page: the way to all of this one.
  whole() {
    const whole = make("a", { class: "whole", target: "_blank", rel: "noopener" }, "Open in a page of its own");
    this.aim = () => { whole.href = link.address({ ...link.read(), view: "play", scenario: state.now.scenario, embed: null }); };
    state.listen((changed) => { if (changed.has("scenario")) this.aim(); });
    this.aim();
    return whole;
  }

  /** Begins anew with the scenario `text`. */
  async load(text) {
    // The first question is that of the link, with the part of the timelines that it shows.
    this.unseen = this.base ? null : link.read();
    this.base = text;
    this.changes = {};
    if (document.activeElement !== this.text) this.text.value = text;
    try {
      const { keys } = await this.engine.ask({ ask: "keys", text });
      if (this.base !== text) return;
      if (lacks(keys)) this.changes = { schedule: this.usual };
      this.keys = { ...keys, ...this.changes };
      this.show();
    } catch {
      // What is wrong with it is said with the answer.
      this.element.hidden = false;
    }
    this.ask();
  }
  show() {
    this.element.hidden = false;
    this.form.show(this.keys);
    this.schedules.choose(this.keys.schedule);
    this.describe();
  }
  /** Changes the key `name` of the scenario; null takes it out. */
  change(name, value) {
    const changes = { [name]: value, ...(name === "schedule" ? {} : this.begun()) };
    this.changes = { ...this.changes, ...changes };
    for (const [key, one] of Object.entries(changes)) {
      if (one === null) delete this.keys[key]; else this.keys[key] = one;
    }
    this.describe();
    this.ask();
  }
  // Title and source of a question whose figures are no longer those of its source.
  begun() {
    const { title, source } = this.keys, said = ", changed";
    return {
      ...(title && !title.endsWith(said) ? { title: title + said } : {}),
      ...(source && !source.startsWith(BEGUN) ? { source: BEGUN + source } : {}),
    };
  }
  describe() {
    const { title, stages, microbatches } = this.keys;
    this.title.textContent = title || "Schedules side by side";
    state.change({ title: title || `${stages} stages, ${microbatches} microbatches` });
    const settings = this.keys.setting?.length;
    this.source.textContent = [this.keys.source, settings ? `${settings} settings: the keys of each stand in the file` : ""]
      .filter(Boolean).join(". ");
  }
  retype() {
    if (this.text.value === state.now.scenario) return;
    state.change({ scenario: this.text.value }, state.TYPING);
  }
  request(more) {
    return { ask: "simulate", text: this.base, change: this.changes, partial: true, ...more };
  }
  options() {
    return { files: state.now.files, progress: (work) => { this.work = work; } };
  }
  /** Asks for figures and timelines, as fast as they are to be had. */
  async ask() {
    if (this.isEmpty()) {
      await this.choose();
      return;
    }
    this.began ??= performance.now();
    const { base, changes } = this, watch = this.watch(this.quick);
    try {
      const answer = await this.quick.ask(this.request({ draw: "passes" }), this.options());
      if (!answer || base !== this.base || this.isEmpty()) return;
      this.take(answer);
    } catch (error) {
      if (base !== this.base || this.isEmpty()) return;
      await this.refuse(error, base, changes);
    } finally {
      watch();
    }
  }
  // Whether the last schedule was taken out of the list.
  isEmpty() { return Boolean(this.changes.schedule) && lacks(this.keys); }
  // Says that a schedule must be chosen, and shows where.
  choose() {
    this.schedules.element.open = true;
    return this.refuse({ failure: { text: NONE } }, this.base, this.changes);
  }
  take(answer) {
    this.settled(answer.text);
    this.fault.hidden = true;
    this.form.settle();
    this.answer.classList.remove("stale");
    this.gantts.forget();
    this.draw(answer);
    if (this.unseen && answer.drawing) this.gantts.see(this.unseen);
    this.unseen = null;
    this.headline.take(answer);
    this.share.take(answer);
    this.results.take(answer, this.fitting);
    this.why.classList.add("stale");
    performance.measure("question to picture", { start: this.began, end: performance.now() });
    this.began = null;
    this.settle();
  }
  // The text of the question, once the library has written it.
  settled(text) {
    if (document.activeElement !== this.text) this.text.value = text;
    state.change({ scenario: text }, this);
  }
  // Says what is wrong, beside the field to blame where there is one; the last answer stays, and greys.
  async refuse(error, base, changes) {
    const failure = error.failure || { text: error.message };
    this.answer.classList.add("stale");
    this.began = null;
    this.form.settle();
    if (failure.key) this.form.complain(failure.key, failure.message);
    this.fault.textContent = failure.text;
    this.fault.hidden = false;
    if (!error.failure) return;
    try {
      const { text } = await this.engine.ask({ ask: "change", text: base, change: changes });
      if (base === this.base) this.settled(text);
    } catch {
      // What is not a scenario cannot be changed, and has been refused above.
    }
  }
  /** Asks for the causes of each gap and the transfers, once the question rests. */
  async details() {
    const { base, changes } = this;
    try {
      const answer = await this.thorough.ask(this.request({ draw: "all", applicable: true }), this.options());
      if (!answer || base !== this.base || changes !== this.changes) return;
      if (answer.drawing) this.draw(answer);
      if (answer.applicable?.best.length) {
        this.headline.widen(answer.applicable);
        this.share.prefer(answer.applicable.best[0]);
      }
      this.said.textContent = answer.points.map(({ title, bubble, memory }) =>
        `${title}: bubble ${bubble[1]}, peak memory ${memory[1]}`).join("; ");
    } catch {
      // The question has been refused already, or the work was stopped.
    }
    this.all();
    this.limit();
  }
  // Draws the timelines of `answer`: where it is asked, of those that fit.
  draw({ drawing, points, not_drawn: why }) {
    this.drawn = { drawing, points, not_drawn: why };
    const kept = points.map((_, at) => at).filter((at) => !this.fitting || points[at].fits !== false);
    const charts = drawing && { ...drawing, charts: kept.map((at) => drawing.charts[at]) };
    this.gantts.take(charts, kept.map((at) => points[at]), why);
  }
  /** Leaves out what breaks the memory limit, or no longer. */
  fit(on) {
    this.fitting = on;
    this.limited = null;
    if (this.drawn) this.draw(this.drawn);
    if (this.results.answer) this.results.take(this.results.answer, on);
    this.limit();
  }
  // Which of all schedules fit, where that is asked.
  async limit() {
    if (!this.fitting) return this.schedules.limit(null);
    const { base, changes } = this;
    if (this.limited === changes) return undefined;
    const answer = await this.thorough.ask(this.request({ schedules: ["all"] }), this.options()).catch(() => null);
    if (!answer || base !== this.base || changes !== this.changes || !this.fitting) return undefined;
    this.limited = changes;
    return this.schedules.limit(new Set(answer.points.filter((one) => one.fits !== false).map((one) => one.schedule)));
  }
  // The plane of all schedules, where it is open.
  async all() {
    const { base, changes } = this;
    if (!this.pareto.open || this.planed === changes) return;
    const watch = this.watch(this.thorough);
    try {
      const answer = await this.thorough.ask(this.request({ schedules: ["all"], front: true }), this.options());
      if (!answer || base !== this.base || changes !== this.changes) return;
      this.planed = changes;
      const chosen = ({ schedule }) => this.schedules.toggle(schedule, true);
      const refused = (answer.refused || []).map(({ schedule, reason }) =>
        make("tr", {}, make("td", {}, schedule), make("td", {}, reason)));
      this.plane.replaceChildren(make("p", { class: "help" }, "Lower left is better. A click on a schedule draws it above."),
        pareto(answer, chosen),
        make("details", {}, make("summary", {}, "As a table"), paretoTable(answer)),
        make("details", {}, make("summary", {}, `${refused.length} schedules do not apply here`),
          make("table", { class: "words" }, make("tbody", {}, ...refused))));
    } catch (error) {
      this.plane.replaceChildren(make("pre", { class: "error" }, error.text || error.message));
    } finally {
      watch();
    }
  }
  /** Says why the schedule of `point` waits. */
  async explain({ schedule, title }) {
    this.why.hidden = false;
    this.why.classList.remove("stale");
    this.why.replaceChildren(make("h3", {}, `Why ${title} waits`), make("p", {}, "Every cause is taken away in turn …"));
    const watch = this.watch(this.thorough), { base } = this;
    try {
      const answer = await this.thorough.ask(this.request({ schedules: [schedule], explain: true }), this.options());
      // A later question has come first.
      this.why.hidden = !answer || base !== this.base;
      if (this.why.hidden) return;
      const parts = answer.why.filter((one) => one.title === title || answer.why.length === 1);
      this.why.replaceChildren(...parts.flatMap((one) => [make("h3", {}, `Why ${one.title} waits`),
        ...sheet(one.sheet.slice(1)), picture(one.svg, `What changes would be worth for ${one.title}`)]));
      this.why.focus();
    } catch (error) {
      this.why.replaceChildren(make("pre", { class: "error" }, error.text || error.message));
    } finally {
      watch();
    }
  }
  // Shows that `latest` is at work if that takes long, and a way to end it. The result ends that.
  watch(latest) {
    this.watched = (this.watched || 0) + 1;
    const timer = setTimeout(() => {
      this.busy.replaceChildren("Working … ", button("Stop", () => latest.stop("Stopped.")));
      this.busy.hidden = false;
    }, SLOW);
    return () => {
      clearTimeout(timer);
      this.watched -= 1;
      this.busy.hidden ||= this.watched === 0;
    };
  }
  /** Draws again what could not be drawn while the tab was hidden. */
  seen() { requestAnimationFrame(() => this.gantts.charts.draw()); }
}
