// Which schedules are compared: a list to choose from, in groups.

import { make } from "page/dom.js";

/** The name that stands for all schedules. */
const ALL = "all";

/**
 * Checklists of the `groups` of schedules, as the library tells them; `changed` is called with the chosen names, and
 * `fitting` with whether those that fit alone are wanted.
 */
export class Schedules {
  constructor(groups, changed, fitting) {
    this.changed = changed;
    this.chosen = [];
    this.boxes = new Map();
    this.more = make("div", { class: "checks" });
    this.groups = groups.map((group) => this.group(group));
    this.filter = make("input", { type: "search", placeholder: "Filter names and words", "aria-label": "Filter schedules" });
    this.filter.addEventListener("input", () => this.show());
    this.fits = make("input", { type: "checkbox" });
    this.fits.addEventListener("change", () => fitting(this.fits.checked));
    this.none = make("p", { class: "help", hidden: true }, "No schedule has these words.");
    this.element = make("details", { class: "box schedules", open: innerWidth > 820 }, make("summary", {}, "Schedules"),
      make("div", { class: "bar" }, this.box(ALL, "All that can do this question", "all that apply"),
        make("label", { title: "Leave out what breaks the memory limit" }, this.fits, "fits only")),
      this.filter, this.none, ...this.groups.map((one) => one.element), this.more);
  }
  group({ name, about, schedules }) {
    const members = schedules.map((one) => {
      const label = this.box(one.name, words(one));
      const line = make("p", { class: "line" }, one.summary);
      return { one, element: make("div", { class: "schedule" }, label, line) };
    });
    const count = make("span", { class: "count" });
    const element = make("details", { class: "group" }, make("summary", {}, `${name} `, count), make("p", { class: "help" }, about),
      make("div", { role: "group", "aria-label": name }, ...members.map((member) => member.element)));
    return { name, members, element, count };
  }
  box(name, help, text = name) {
    const input = make("input", { type: "checkbox" });
    input.addEventListener("change", () => this.toggle(name, input.checked));
    this.boxes.set(name, input);
    return make("label", { title: help }, input, text);
  }
  /** Chooses `name`, or no longer. */
  toggle(name, on) {
    const others = this.chosen.filter((one) => one !== name && (on && name === ALL ? false : one !== ALL || !on));
    this.chosen = on ? [...others, name] : others;
    this.mark();
    this.changed([...this.chosen]);
  }
  /** Shows the chosen names, those of files too. Groups in which something is chosen are open. */
  choose(names) {
    this.chosen = names === undefined || names === null ? [] : [names].flat().map(String);
    for (const name of this.chosen.filter((name) => !this.boxes.has(name))) {
      this.more.append(this.box(name, "An order from a file"));
    }
    this.groups.forEach(({ members, element }) => { element.open ||= members.some(({ one }) => this.chosen.includes(one.name)); });
    this.mark();
  }
  /** Takes the names that fit: others are hidden; of null, none are. */
  limit(fitting) {
    this.fitting = fitting;
    this.show();
  }
  // Hides what the filter does not find, and what does not fit.
  show() {
    const asked = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let any = false;
    for (const { name, members, element } of this.groups) {
      for (const member of members) {
        const text = `${name} ${member.one.name} ${member.one.summary} ${words(member.one)}`.toLowerCase();
        const found = asked.every((word) => text.includes(word)) && (!this.fitting || this.fitting.has(member.one.name));
        member.element.hidden = !found;
      }
      element.hidden = members.every((member) => member.element.hidden);
      if (asked.length && !element.hidden) element.open = true;
      any ||= !element.hidden;
    }
    this.none.hidden = any;
  }
  mark() {
    this.boxes.forEach((box, name) => { box.checked = this.chosen.includes(name); });
    for (const { members, count } of this.groups) {
      const chosen = members.filter(({ one }) => this.chosen.includes(one.name)).length;
      count.textContent = chosen ? `${chosen} of ${members.length}` : String(members.length);
    }
  }
}

function words({ source, needs, bubble, memory }) {
  return [source, `needs: ${needs}`, `bubble: ${bubble}`, `memory: ${memory}`].join("\n");
}
