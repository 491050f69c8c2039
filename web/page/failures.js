// The tab "Failures": dead workers whose passes data-parallel peers run, and policies against failures.

import { make, picture, sheet } from "page/dom.js";
import { downloads, study } from "page/study.js";

/** Makes the tab. */
export const begin = (page) => study({
  name: "failures",
  title: "Dead workers of data-parallel pipelines",
  about: "Takes schedules, stages and times of the question of “Play”, and several such pipelines. It says how long a step takes when workers are dead and peers run their passes, and, with a mean time between failures, which policy does most steps.",
  act: "Reroute the passes",
  beside: true,
  shown,
}, page);

function shown(answer) {
  const bars = answer.svg ? [picture(answer.svg, "Steps by schedule: healthy, with passes rerouted, with the pipeline dropped")] : [];
  return [...bars, ...sheet(answer.sheet), make("h3", {}, "Take it with you"), downloads("failures", answer)];
}
