// The tab "Encoder": an encoder in front of a language model, by placement and schedule.

import { make, picture, sheet } from "page/dom.js";
import { saver } from "page/files.js";
import { downloads, study } from "page/study.js";

/** Makes the tab. */
export const begin = (page) => study({
  name: "encoder",
  title: "An encoder in front of a language model",
  about: "Compares places of a vision encoder: on the first stage, on stages of its own, spread over all chunks, or in the bubbles of all stages. It says which place and schedule is the fastest, and how far it is from a bound of all.",
  act: "Compare the placements",
  shown,
}, page);

function shown(answer) {
  const { svg, drawn, operations } = answer;
  const timeline = svg ? [make("h3", {}, "The step with the encoder in bubbles"), drawing(svg, drawn)] : [];
  const more = operations ? [saver("Operations as CSV", "operations.csv", () => operations)] : [];
  return [...sheet(answer.sheet), ...timeline, make("h3", {}, "Take it with you"), downloads("encoder", answer, ...more)];
}

function drawing(svg, schedule) {
  const timeline = picture(svg, `Timeline of ${schedule} with the encoder in its bubbles`);
  timeline.tabIndex = 0;
  return make("div", {}, timeline);
}
