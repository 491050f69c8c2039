// The peak memory of each stage, beside its row of the timeline, with the limit as a line.

import { make } from "page/dom.js";
import { short } from "page/words.js";

/** The largest peak or limit among `points`: the full width of all bars. */
export function scale(points) {
  return Math.max(...points.flatMap(({ stages: { peaks, limits } }) => [...peaks, ...limits ?? []]), 0) || 1;
}

/**
 * Fills `element`, which stands beside `chart`, with the bars of `point`; `most` is their full width. The limit of a
 * stage is a line over its bar.
 */
export function peaks(element, chart, point, most) {
  const { stages: { peaks, limits }, memory: [, peak], limit } = point;
  const shown = JSON.stringify([point.title, peaks, limits, most, chart.top, chart.height]);
  if (element.dataset.shown === shown) return;
  element.dataset.shown = shown;
  const percent = (value) => `${100 * value / most}%`;
  const style = (at, left, width) => ({ top: `${chart.top + at * chart.height}px`, height: `${chart.height - 2}px`, left, width });
  const bars = peaks.map((held, at) => {
    const bar = make("span", { class: limits && held > limits[at] ? "peak over" : "peak" });
    Object.assign(bar.style, style(at, "0", percent(held)));
    return bar;
  });
  const lines = (limits ?? []).map((allowed, at) => {
    const line = make("span", { class: "allowed" });
    Object.assign(line.style, style(at, percent(allowed), "0"), { height: `${chart.height}px` });
    return line;
  });
  const head = make("span", { class: "said" }, `peak ${short(peak)}`, make("br"), limit ? `of ${short(limit)}` : "");
  element.style.height = `${chart.tall()}px`;
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", `Peak memory of ${point.title}: ${peak}${limit ? `, limit ${limit}` : ""}`);
  element.replaceChildren(head, ...bars, ...lines);
}
