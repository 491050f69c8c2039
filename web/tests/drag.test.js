// The picture follows a slider while it is dragged.

import assert from "node:assert/strict";

import { onPage } from "./browser.js";

const SCENARIO = `schedule = ["1f1b", "zb-h1", "zb-h2", "zb-v"]
stages = 8
microbatches = 32
forward = "10ms"
backward-input = "11ms"
backward-weight = "9ms"
hop = "500us"
`;

/** How often the slider is moved. */
const MOVES = 12;

onPage("schedules are drawn anew while a slider is dragged", { link: { view: "play", scenario: SCENARIO } }, async (opened) => {
  const { page } = opened;
  const slider = await opened.named("slider", "F (forward), slider").waitHandle();
  await slider.scrollIntoView();
  const box = await slider.boundingBox();
  assert.ok(box);
  const before = { asked: (await opened.questions("simulate")).length, picture: await page.screenshot() };
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  await page.mouse.move(x, y);
  await page.mouse.down();
  for (let move = 1; move <= MOVES; move += 1) {
    await page.mouse.move(x + (move * box.width) / 4 / MOVES, y);
    // Two frames are a human's pace, and enough for the page to draw in between.
    await page.evaluate(() => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next))));
  }
  const drawn = (await opened.questions("simulate")).slice(before.asked);
  await page.mouse.up();
  assert.ok(drawn.filter(({ answer }) => answer).length >= 2, "nothing was drawn while the slider was dragged");
  await opened.rest();

  const asked = (await opened.questions("simulate")).slice(before.asked);
  assert.ok(asked.every(({ failure, broken }) => !failure && !broken));
  // A picture for every move and one in full in the end: nothing is worked out twice or in vain.
  assert.ok(asked.length <= MOVES + 3, `${asked.length} questions for ${MOVES} moves`);
  for (const { request, frames } of asked) {
    assert.ok(frames <= 120, `the page drew ${frames} frames before it had an answer to ${JSON.stringify(request)}`);
  }
  const { text, results } = JSON.parse(/** @type {string} */ (asked.at(-1)?.answer));
  const shown = await slider.evaluate((one) => one.getAttribute("aria-valuetext") ?? /** @type {any} */ (one).value);
  assert.match(text, new RegExp(`^forward = "${shown}"$`, "m"));
  assert.equal(results.length, 4);
  assert.notEqual(Buffer.compare(before.picture, await page.screenshot()), 0);
});
