// The tab "Play": schedules side by side.

import { Latest } from "page/engine.js";
import * as state from "page/state.js";

/** Makes the tab. */
export async function begin({ say }) {
  const latest = new Latest();
  const shown = document.createElement("pre");
  document.getElementById("play").append(shown);
  state.listen(async (changed) => {
    if (!changed.has("scenario")) return;
    try {
      const answer = await latest.ask({ ask: "simulate", text: state.now.scenario });
      if (!answer) return;
      shown.textContent = JSON.stringify(answer, null, 1);
      say("");
    } catch (error) {
      say(error.text || error.message, true);
    }
  });
}
