// The tab "RL step": the phases of a step of reinforcement learning, and what changes would save.

import { button, make, picture, sheet } from "page/dom.js";
import { downloads, study } from "page/study.js";

/** Makes the tab. */
export const begin = (page) => study({
  name: "rl",
  title: "A step of reinforcement learning",
  about: "Predicts a step of GRPO or PPO: the rollout, log-probabilities, updates, and new weights for the engines that generate. It says which phase takes longest, and tries changes.",
  act: "Predict the step",
  lengths: ["response-lengths", "prompt-lengths"],
  shown,
}, page);

function shown(answer, tab) {
  const { levers } = answer.answer;
  const tried = levers.flatMap(({ lever, change }, at) => answer.changes[at]
    ? [button(`Ask with ${lever}`, () => tab.tried(answer.changes[at]), { title: change })] : []);
  return [
    ...sheet(answer.sheet),
    ...tried.length ? [make("div", { class: "buttons" }, ...tried)] : [],
    picture(answer.svg, "The share of each phase of the step"),
    make("h3", {}, "Take it with you"), downloads("rl", answer),
  ];
}
