// A question of one table of keys, as Python and the command line ask it.

/** Python that asks the question `name` of `keys`. */
export function called(name, keys) {
  const value = (one) => typeof one === "boolean" ? (one ? "True" : "False") : JSON.stringify(one);
  const words = Object.entries(keys).map(([key, one]) => `${key.replaceAll("-", "_")}=${value(one)}`);
  return `import debubble as db\n\nprint(db.${name}(${words.join(", ")}))\n`;
}

/** The command that asks it. */
export function commanded(name, keys) {
  const word = (text) => /^[\w.,:=/@+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
  const flags = Object.entries(keys).filter(([, one]) => one !== false)
    .map(([key, one]) => `--${key}${one === true ? "" : ` ${word([one].flat().join(","))}`}`);
  return `${["debubble", name, ...flags].join(" ")}\n`;
}
