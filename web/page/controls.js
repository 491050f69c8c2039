// Fields and sliders for keys of a scenario.

import { button, fresh, make } from "page/dom.js";
import { meant, measure, shown } from "page/schema.js";

/** How far the sliders of counts go at first. */
const COUNTS = { stages: 32, microbatches: 128, chunks: 8, seed: 100, replicas: 1000 };

/** The label of `key`, and its name in files beside it; `target` is the element that is labelled. */
function named(key, target, raw) {
  return make("div", { class: "named" }, make("label", { htmlFor: target, title: key.help }, key.label), " ", make("code", { id: raw }, key.name));
}

/**
 * The control of a key: a field, and a slider where its value is a number with or without a unit. `changed` is
 * called with the value, or null where the key is to be left out.
 */
export class Control {
  constructor(key, changed, { slider = true } = {}) {
    this.key = key;
    this.changed = changed;
    this.value = "";
    const id = fresh("key"), help = fresh("help"), raw = fresh("name");
    this.field = key.choices ? this.choice(id) : make("input", { id, type: "text", autocomplete: "off", spellcheck: false, placeholder: shown(key.initial) });
    this.field.setAttribute("aria-describedby", `${raw} ${help}`);
    this.field.addEventListener(key.choices ? "change" : "input", () => this.typed());
    this.own = key.time ? "ms" : measure(shown(key.examples[0] ?? ""))?.unit;
    const isText = key.type.every((one) => one === "string") && this.own;
    if (isText) this.field.addEventListener("change", () => { this.field.value = this.united(); });
    else this.own = "";
    const more = isText ? `A number without a unit takes that of the value before it, at first ${this.own}` : "";
    this.help = make("p", { id: help, class: "help", hidden: true }, [key.help, key.form.replace(/\.$/, ""), more].filter(Boolean).join(". "));
    this.fault = make("p", { class: "fault" });
    const ask = button("?", () => this.toggle(), { class: "ask", "aria-label": `Help for ${key.label}`, "aria-expanded": "false" });
    this.ask = ask;
    this.element = make("div", { class: "control" }, named(key, id, raw), ask, this.field);
    this.element.dataset.key = key.name;
    if (slider && !key.choices) this.element.append(this.slide());
    if (key.suggested) this.element.append(this.suggestions(id));
    this.element.append(this.help, this.fault);
  }
  // Values that may be typed, as a list below the field.
  suggestions(id) {
    this.field.setAttribute("list", `${id}-list`);
    return make("datalist", { id: `${id}-list` }, ...this.key.suggested.map((value) => make("option", { value })));
  }
  choice(id) {
    const none = this.key.initial === undefined ? "not given" : `${shown(this.key.initial)} (not given)`;
    const options = ["", ...this.key.choices].map((name) => make("option", { value: name }, name || none));
    return make("select", { id }, ...options);
  }
  slide() {
    this.slider = make("input", { type: "range", "aria-label": `${this.key.label}, slider`, min: 0 });
    this.slider.addEventListener("input", () => this.slid());
    return this.slider;
  }
  toggle() {
    this.help.hidden = !this.help.hidden;
    this.ask.setAttribute("aria-expanded", String(!this.help.hidden));
  }
  /** The text of the field, its bare numbers with the unit that the value before had. */
  united() {
    return this.own ? this.field.value.replaceAll(/(^|,)(\s*[0-9]+(?:\.[0-9]+)?)(?=\s*(,|$))/g, `$1$2${this.own}`) : this.field.value;
  }
  /** Shows `value`; undefined where the key is not given. */
  show(value) {
    const text = shown(value);
    if (document.activeElement !== this.field || this.field.value.trim() === "" || this.key.choices) this.field.value = text;
    this.value = text;
    if (this.own) this.own = measure(text)?.unit || this.own;
    this.complain("");
    this.range(text);
  }
  /** Says that the value is wrong, and why. */
  complain(text) {
    this.fault.textContent = text;
    if (text) this.field.setAttribute("aria-invalid", "true");
    else this.field.removeAttribute("aria-invalid");
  }
  // Where the slider goes: up to twice the value, or as far as counts go.
  range(text, keep = false) {
    if (!this.slider) return;
    const now = measure(text) || (text === "" ? measure(shown(this.key.examples[0] ?? "")) : null);
    const count = COUNTS[this.key.name];
    this.slider.disabled = !now && count === undefined;
    if (this.slider.disabled) return;
    const { number, unit } = now || { number: 0, unit: "" };
    if (!keep || number > Number(this.slider.max)) {
      const most = count ? Math.max(count, number) : rounded(Math.max(2 * number, 1));
      const isCount = count !== undefined || this.key.type.includes("integer");
      Object.assign(this.slider, { min: isCount && this.key.name !== "seed" ? 1 : 0, max: most, step: isCount ? 1 : most / 400 });
    }
    this.unit = unit;
    this.slider.value = text === "" ? this.slider.min : number;
    this.slider.setAttribute("aria-valuetext", text || "not given");
  }
  slid() {
    const digits = Math.max(0, 3 - Math.floor(Math.log10(Number(this.slider.max))));
    const number = Number(Number(this.slider.value).toFixed(Number(this.slider.step) === 1 ? 0 : Math.min(digits, 6)));
    this.field.value = `${number}${this.unit || ""}`;
    this.slider.setAttribute("aria-valuetext", this.field.value);
    this.tell();
  }
  typed() {
    this.range(this.field.value, true);
    this.tell();
  }
  tell() {
    this.value = this.field.value;
    this.changed(this.key.name, meant(this.key, this.united()));
  }
}

/** `number` up to 1, 2 or 5 of its decade. */
function rounded(number) {
  const decade = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 5, 10].map((times) => times * decade).find((size) => size >= number);
}

/**
 * The control of a key with a list of values of which each ends with a number, such as the slow stages: a field
 * and a slider for each, and a button for one more.
 */
export class ListControl {
  constructor(key, changed, { add }) {
    this.key = key;
    this.changed = changed;
    this.entries = [];
    this.list = make("div", { class: "entries" });
    this.fault = make("p", { class: "fault" });
    const more = button(add, () => this.more());
    const label = make("span", { title: key.help }, key.label);
    this.element = make("div", { class: "control list", role: "group", "aria-label": key.label },
      make("div", { class: "named" }, label, " ", make("code", {}, key.name)), more, this.list, this.fault);
    this.element.dataset.key = key.name;
  }
  show(value) {
    const entries = value === undefined || value === null ? [] : [value].flat().map(String);
    this.complain("");
    if (entries.join() === this.entries.join()) return;
    this.entries = entries;
    this.draw();
  }
  complain(text) { this.fault.textContent = text; }
  more() {
    const unused = this.key.examples.find((one) => !this.entries.includes(one)) || this.key.examples[0];
    this.entries = [...this.entries, unused];
    this.draw();
    this.tell();
    this.list.lastElementChild?.querySelector("input")?.focus();
  }
  draw() { this.list.replaceChildren(...this.entries.map((entry, at) => this.entry(entry, at))); }
  entry(text, at) {
    const field = make("input", { type: "text", value: text, "aria-label": `${this.key.label} ${at + 1}`, title: this.key.help, spellcheck: false });
    const slider = make("input", { type: "range", "aria-label": `${this.key.label} ${at + 1}, slider` });
    const split = () => /^(.*[=:])([0-9]+(?:\.[0-9]+)?)$/.exec(field.value);
    const fit = () => {
      const found = split();
      slider.disabled = !found;
      if (!found) return;
      const most = Math.max(rounded(Math.max(2 * Number(found[2]), 0.1)), Number(slider.dataset.most || 0));
      slider.dataset.most = most;
      Object.assign(slider, { min: 0, max: most, step: most / 200, value: found[2] });
    };
    const changed = () => {
      this.entries[at] = field.value;
      slider.setAttribute("aria-valuetext", field.value);
      this.tell();
    };
    field.addEventListener("input", () => { fit(); changed(); });
    slider.addEventListener("input", () => {
      field.value = split()[1] + Number(Number(slider.value).toFixed(4));
      changed();
    });
    fit();
    const remove = button("×", () => {
      this.entries.splice(at, 1);
      this.draw();
      this.tell();
    }, { class: "ask", "aria-label": `Remove ${text}` });
    return make("div", { class: "entry" }, field, remove, slider);
  }
  tell() { this.changed(this.key.name, this.entries.length ? [...this.entries] : null); }
}
