// The tab "Packing": samples of unequal length in data-parallel training, packed and communicated in several ways.

import { make, picture, sheet } from "page/dom.js";
import { saver } from "page/files.js";
import { downloads, study } from "page/study.js";

/** Makes the tab. */
export const begin = (page) => study({
  name: "fsdp",
  title: "Packing for data-parallel training",
  about: "Packs samples of unequal length into microbatches, and times FSDP with collectives and with on-demand communication: step, idle time and speed-up, side by side.",
  act: "Compare the ways",
  lengths: ["lengths"],
  shown,
}, page);

function shown(answer, tab) {
  return [
    ...sheet(answer.sheet), picture(answer.svg, "The bubble rate over the minibatch size"),
    make("h3", {}, "Take it with you"), downloads("packing", answer),
    make("h3", {}, "The first minibatch in time"), ...minibatch(answer, tab),
  ];
}

/** A choice of the settings, and the first minibatch of the one that is chosen. */
function minibatch({ settings, best }, tab) {
  const choice = make("select", { "aria-label": "Setting" },
    ...settings.map((one, at) => make("option", { value: String(at), selected: at === best }, one)));
  const ask = tab.asker(), drawn = make("div", {});
  const draw = async () => {
    try {
      const { svg } = await ask({ ask: "minibatch", setting: Number(choice.value) });
      const timeline = picture(svg, `The layers of each device: ${settings[Number(choice.value)]}`);
      timeline.tabIndex = 0;
      drawn.replaceChildren(timeline,
        make("div", { class: "buttons" }, saver("Timeline", "minibatch.svg", () => svg)));
    } catch (error) {
      drawn.replaceChildren(make("p", { class: "note" }, error.text || error.message));
    }
  };
  choice.addEventListener("change", draw);
  draw();
  return [make("div", { class: "buttons" }, choice), drawn];
}
