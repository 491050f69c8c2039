// A question of one table of keys, as Python and the command line ask it.

import { command, python } from "page/share.js";

/** Python that asks the question `name` of `keys`, about the scenario if there is one. */
export function called(name, keys, scenario) {
  const value = (one) => typeof one === "boolean" ? (one ? "True" : "False") : JSON.stringify(one);
  const words = Object.entries(keys).map(([key, one]) => `${key.replaceAll("-", "_")}=${value(one)}`);
  return scenario === undefined ? `import debubble as db\n\nprint(db.${name}(${words.join(", ")}))\n` : python(scenario, name, ...words);
}

/** The command that asks it. */
export function commanded(name, keys, scenario) {
  const word = (text) => /^[\w.,:=/@+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
  const flags = Object.entries(keys).filter(([, one]) => one !== false)
    .map(([key, one]) => `--${key}${one === true ? "" : ` ${word([one].flat().join(","))}`}`);
  return scenario === undefined ? `${["debubble", name, ...flags].join(" ")}\n` : command(scenario, name, ...flags);
}
