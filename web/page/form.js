// The form of a scenario, made from its schema.

import { make } from "page/dom.js";
import { Control, ListControl } from "page/controls.js";
import { keys } from "page/schema.js";

/** The keys that have a slider at the top, and those of noise. */
const PLAYED = ["stages", "microbatches", "chunks", "forward", "backward-input", "backward-weight", "hop", "memory-limit"];
const NOISE = ["stall", "seed", "replicas"];
const LISTS = {
  slowdown: { add: "Add a slow one" },
  jitter: { add: "Add jitter" },
};
/** Keys that have a place of their own on the page. */
const ELSEWHERE = ["schedule", "title", "source"];

/** The form: controls by key, and the elements that hold them. */
export class Form {
  constructor(schema, changed) {
    this.all = keys(schema);
    this.changed = changed;
    this.controls = new Map();
    this.played = make("div", { class: "controls played" }, ...PLAYED.map((name) => this.control(name, true)));
    const lists = Object.entries(LISTS).map(([name, words]) => this.list(name, words));
    this.noise = make("details", { class: "box" }, make("summary", {}, "Stragglers and noise"),
      make("div", { class: "controls" }, ...lists, ...NOISE.map((name) => this.control(name, name !== "stall"))));
    this.rest = make("details", { class: "box" }, make("summary", {}, "All keys"), ...this.others());
  }
  control(name, slider) {
    const control = new Control(this.all.get(name), this.changed, { slider });
    this.controls.set(name, control);
    return control.element;
  }
  list(name, words) {
    const control = new ListControl(this.all.get(name), this.changed, words);
    this.controls.set(name, control);
    return control.element;
  }
  others() {
    const known = (name) => this.controls.has(name) || ELSEWHERE.includes(name);
    const names = [...this.all.values()].filter((key) => key.plain && !known(key.name)).map((key) => key.name);
    const search = make("input", { type: "search", placeholder: "Search names and help", "aria-label": "Search keys" });
    const list = make("div", { class: "controls" }, ...names.map((name) => this.control(name, false)));
    const none = make("p", { hidden: true }, "No key has these words.");
    search.addEventListener("input", () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const text = ({ name, label, help }) => `${name} ${label} ${help}`.toLowerCase();
      const fits = (name) => words.every((word) => text(this.all.get(name)).includes(word));
      names.forEach((name) => { this.controls.get(name).element.hidden = !fits(name); });
      none.hidden = names.some(fits);
    });
    return [search, none, list];
  }
  /** Shows the keys of a scenario. */
  show(keys) {
    for (const [name, control] of this.controls) control.show(keys[name]);
    for (const [box, names] of [[this.noise, [...Object.keys(LISTS), ...NOISE]]]) {
      if (names.some((name) => keys[name] !== undefined)) box.open = true;
    }
  }
  /** Says beside the field of `key` what is wrong with it; whether it has one. */
  complain(key, text) {
    const control = this.controls.get(key);
    if (!control) return false;
    control.complain(text);
    control.element.closest("details")?.setAttribute("open", "");
    return true;
  }
  /** Takes back all complaints. */
  settle() {
    this.controls.forEach((control) => control.complain(""));
  }
}
