// The keys of a scenario as its JSON schema tells them: form, help, choices and examples.

/** All keys of `schema` by name, each as `describe` tells it. */
export function keys(schema) {
  const all = new Map();
  Object.entries(schema.properties).forEach(([name, part]) => all.set(name, describe(schema, name, part)));
  return all;
}

/** What all times refer to. */
const TIME = "#/definitions/Time";

/** A key: its `label` in the words of the field, its `help`, whether it may have `many` values, whether these are times,
 *  its `type`, the `choices` and `examples`, what it is where it is not given (`initial`), and the `group` that it is in. */
function describe(schema, name, part) {
  const whole = resolved(schema, part);
  const forms = (whole.anyOf || whole.allOf || [whole]).map((form) => resolved(schema, form));
  const tables = forms.some((form) => form.type === "object" || (form.items && resolved(schema, form.items).properties));
  const single = forms.find((form) => form.type !== "array" && !form.properties) || forms[0];
  return {
    name,
    label: whole.title || name,
    help: whole.description || single.description || "",
    form: single === whole ? "" : single.description || "",
    many: forms.some((form) => form.type === "array"),
    time: (whole.anyOf || whole.allOf || [whole]).some((form) => form.$ref === TIME),
    type: [single.type].flat(),
    choices: single.enum || null,
    examples: single.examples || [],
    plain: !single.properties && !tables,
    initial: whole.default,
    group: whole.group || "",
  };
}

function resolved(schema, part) {
  if (!part.$ref) return part;
  const name = part.$ref.replace("#/definitions/", "");
  return schema.definitions[name] || {};
}

/** The value of `key` as the text of a field. */
export function shown(value) {
  if (value === undefined || value === null) return "";
  return Array.isArray(value) ? value.map(String).join(", ") : String(value);
}

/** The value of `key` that the text of a field means; null for none. */
export function meant(key, text) {
  const parts = key.many ? text.split(",").map((part) => part.trim()).filter(Boolean) : [text.trim()];
  const values = parts.map((part) => single(key, part));
  if (!parts.length || parts[0] === "") return null;
  return values.length === 1 ? values[0] : values;
}

function single(key, text) {
  const number = key.type.includes("integer") || key.type.includes("number");
  return number && /^-?[0-9]+(\.[0-9]+)?$/.test(text) ? Number(text) : text;
}

/** The number that `text` begins with, and the unit behind it; null where it is not of that form. */
export function measure(text) {
  const found = /^\s*([0-9]+(?:\.[0-9]+)?)\s*([^0-9\s,]*)\s*$/.exec(text);
  return found ? { number: Number(found[1]), unit: found[2] } : null;
}
