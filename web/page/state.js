// What all parts of the page share: the question as a scenario file, the files that were dropped, and who
// wants to be told of changes.

/** `scenario`: the text of the question as a scenario file, from which every answer follows.
 *  `files`: what was dropped on the page, a Map of names to Uint8Array. `view`: the tab that is shown.
 *  `title`: what the question is called.
 *  `found`: the last result of a search, with the scenario that was searched. */
const state = { scenario: "", view: "play", title: "", files: new Map(), found: null };
const listeners = new Set();

/** The state as it is. It is changed by `change` alone. */
export const now = state;

/** On behalf of whom a change is none that Back takes back: somebody types, or goes through the history. */
export const TYPING = "typing", HISTORY = "history";

/** Changes some of the state, and tells everybody: which parts have changed, and on whose behalf. */
export function change(parts, by = null) {
  const names = Object.keys(parts).filter((name) => parts[name] !== state[name]);
  Object.assign(state, parts);
  if (names.length) listeners.forEach((listener) => listener(new Set(names), by));
}

/** Calls `listener` with the names of the parts that have changed. */
export function listen(listener) {
  listeners.add(listener);
}
