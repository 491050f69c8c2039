// Changes of the question that other tabs make.

import { Engine } from "page/engine.js";
import * as state from "page/state.js";

const engine = new Engine();

/** `text`, a scenario, with `change`, keys and their new values: null takes a key out. */
export async function changed(text, change) {
  const answer = await engine.ask({ ask: "change", text, change });
  return answer.text;
}

/** The keys of the scenario `text`. */
export async function keys(text) {
  return (await engine.ask({ ask: "keys", text })).keys;
}

/** Adds the file `name` to those of the page. */
export function lend(name, content) {
  state.change({ files: new Map([...state.now.files, [name, content]]) });
}

/** Shows the order in the file `name` beside the schedules of the question `text`, in the tab Play. */
export async function put(text, name, content) {
  lend(name, content);
  const known = (await keys(text)).schedule ?? [];
  const schedules = [...new Set([...[known].flat(), name])];
  state.change({ scenario: await changed(text, { schedule: schedules }), view: "play" });
}
