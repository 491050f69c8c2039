// Fields for the keys of a table, made from its JSON schema.

import { make } from "page/dom.js";
import { Control } from "page/controls.js";
import { keys } from "page/schema.js";

/** The part of `schema` that `part` refers to. */
export function resolved(schema, part) {
  const named = part.$ref ?? (part.allOf?.length === 1 ? part.allOf[0].$ref : undefined);
  if (!named) return part;
  const { title, description } = part;
  return { ...schema.definitions[named.replace("#/definitions/", "")], ...(title && { title }), ...(description && { description }) };
}

// Words that are told one by one, each with its own help, as a list of choices.
function plain(schema, part) {
  const whole = resolved(schema, part);
  const words = whole.oneOf?.map((one) => one.const);
  return words?.every((word) => typeof word === "string") ? { ...part, type: "string", enum: words, title: whole.title, description: whole.description, allOf: undefined, $ref: undefined } : part;
}

/** Keys of the table `part` of `schema` by name, as `keys` tells those of a question. */
export function described(schema, part = schema) {
  const { properties } = resolved(schema, part);
  const simple = Object.entries(properties).map(([name, one]) => [name, plain(schema, one)]);
  const all = keys({ properties: Object.fromEntries(simple), definitions: schema.definitions });
  for (const key of all.values()) {
    if (key.type.includes("boolean")) key.choices = ["true", "false"];
  }
  return all;
}

/** The value of `key` as its type wants it. */
function typed(key, value) {
  if (Array.isArray(value)) return value.map((one) => typed(key, one));
  if (key.type.includes("boolean")) return value === "true" ? true : value === "false" ? false : value;
  const number = key.type.includes("number") || key.type.includes("integer");
  return number && typeof value === "string" && Number.isFinite(Number(value)) ? Number(value) : value;
}

/** Fields for a table: one for each key, but for those in `skip`; where some stand `first`, the others are folded.
 *  `changed` is told of every change. */
export class Fields {
  constructor(all, changed, { skip = [], only = null, first = null } = {}) {
    this.values = {};
    this.controls = new Map();
    for (const key of all.values()) {
      if (skip.includes(key.name) || !key.plain || (only && !only.includes(key.name))) continue;
      this.controls.set(key.name, new Control(key, (_, value) => this.take(key, value, changed), { slider: false }));
    }
    const controls = (names) => make("div", { class: "controls" }, ...names.map((name) => this.controls.get(name).element));
    const names = [...this.controls.keys()];
    this.element = first
      ? make("div", {}, controls(first), make("details", { class: "box" }, make("summary", {}, "More"),
        controls(names.filter((name) => !first.includes(name)))))
      : controls(names);
  }

  take(key, value, changed) {
    if (value === null || value === "") delete this.values[key.name];
    else this.values[key.name] = typed(key, value);
    this.settle();
    changed?.();
  }

  /** Shows `values`, and has them from now on. */
  show(values = {}) {
    this.values = Object.fromEntries(Object.entries(values).filter(([name]) => this.controls.has(name)));
    for (const [name, control] of this.controls) control.show(this.values[name]);
  }

  /** Says beside the field of `name` what is wrong; whether there is one. */
  complain(name, text) {
    const control = this.controls.get(name);
    control?.complain(text);
    control?.element.closest("details")?.setAttribute("open", "");
    return Boolean(control);
  }

  /** Takes back all complaints. */
  settle() {
    this.controls.forEach((control) => control.complain(""));
  }
}
