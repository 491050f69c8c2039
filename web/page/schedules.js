// Which schedules are compared: a list to choose from.

import { make } from "page/dom.js";

/** The name that stands for all schedules. */
const ALL = "all";

/** A checklist of `schedules`, as the library tells them; `changed` is called with the chosen names. */
export class Schedules {
  constructor(schedules, changed) {
    this.changed = changed;
    this.chosen = [];
    this.boxes = new Map();
    const entries = schedules.map((one) => this.box(one.name, about(one)));
    this.more = make("div", { class: "checks" });
    this.element = make("details", { class: "box schedules", open: innerWidth > 820 }, make("summary", {}, "Schedules"),
      make("div", { class: "checks", role: "group", "aria-label": "Schedules" },
        this.box(ALL, "All that can do this question"), ...entries, this.more));
  }
  box(name, help) {
    const input = make("input", { type: "checkbox" });
    input.addEventListener("change", () => this.toggle(name, input.checked));
    this.boxes.set(name, input);
    return make("label", { title: help }, input, name);
  }
  /** Chooses `name`, or no longer. */
  toggle(name, on) {
    const others = this.chosen.filter((one) => one !== name && (on && name === ALL ? false : one !== ALL || !on));
    this.chosen = on ? [...others, name] : others;
    this.mark();
    this.changed([...this.chosen]);
  }
  /** Shows the chosen names, those of files too. */
  show(names) {
    this.chosen = names === undefined || names === null ? [] : [names].flat().map(String);
    for (const name of this.chosen.filter((name) => !this.boxes.has(name))) {
      this.more.append(this.box(name, "An order from a file"));
    }
    this.mark();
  }
  mark() {
    this.boxes.forEach((box, name) => { box.checked = this.chosen.includes(name); });
  }
}

function about({ source, needs, bubble, memory }) {
  return [source, `needs: ${needs}`, `bubble: ${bubble}`, `memory: ${memory}`].join("\n");
}
