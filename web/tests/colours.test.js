// Passes stand out from the page and from idle time, in light and in dark.

import assert from "node:assert/strict";

import { onPage } from "./browser.js";

const SCENARIO = `schedule = ["1f1b", "zb-h1"]
stages = 4
microbatches = 4
forward = "10ms"
backward-input = "10ms"
backward-weight = "10ms"
hop = "4ms"
`;

/** @param {number[]} rgb */
const luminance = (rgb) => rgb.slice(0, 3).map((one) => one / 255)
  .map((one) => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
  .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);

/** The contrast of WCAG 2. @param {number[]} a @param {number[]} b */
const contrast = (a, b) => (Math.max(luminance(a), luminance(b)) + 0.05) / (Math.min(luminance(a), luminance(b)) + 0.05);

/** The mean of pixels. @param {number[]} data */
const mean = (data) => [0, 1, 2].map((part) => data.filter((_, at) => at % 4 === part).reduce((sum, one) => sum + one, 0) / (data.length / 4));

for (const scheme of /** @type {const} */ (["light", "dark"])) {
  onPage(`passes stand out from the page and from idle time in ${scheme}`, { scheme, link: { view: "play", scenario: SCENARIO } }, async (opened) => {
    const { page } = opened;
    const legend = await page.$$eval(".legend .key", (all) => all.map((one) => {
      if (one instanceof HTMLCanvasElement) return [...one.getContext("2d")?.getImageData(0, 0, 12, 12).data ?? []];
      return (getComputedStyle(one).backgroundColor.match(/\d+/g) ?? []).slice(0, 3).map(Number);
    }));
    const paper = await page.$eval("body", (body) => (getComputedStyle(body).backgroundColor.match(/\d+/g) ?? []).slice(0, 3).map(Number));
    // F, B, W, BW and idle.
    const [f, b, w, whole, idle] = legend;
    assert.equal(legend.length, 5);
    for (const colour of [f, b, w, whole]) assert.ok(contrast(colour, paper) >= 3, `${colour} on ${paper}: ${contrast(colour, paper)}`);
    const causes = await page.$$eval(".gantts th .key", (all) => all.map((one) => [...(/** @type {HTMLCanvasElement} */ (one)).getContext("2d")?.getImageData(0, 0, 12, 12).data ?? []]));
    assert.ok(causes.length >= 2);
    for (const waiting of [idle, ...causes.map(mean)]) {
      for (const pass of [f, b, w]) {
        const [dim, bright] = scheme === "dark" ? [waiting, pass] : [pass, waiting];
        assert.ok(luminance(dim) < luminance(bright), `${waiting} beside ${pass}`);
      }
    }
  });
}
