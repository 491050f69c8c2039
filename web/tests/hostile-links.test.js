// Whatever a link says, the page answers or refuses with a message, stays alive, and runs no script of it.

import assert from "node:assert/strict";

import { onPage } from "./browser.js";

const FINE = 'schedule = "1f1b"\nstages = 4\nmicrobatches = 8\nforward = "1ms"\nbackward-input = "1ms"\nbackward-weight = "1ms"\n';

/** Questions that are refused, and a word that their message has. @type {[string, string, RegExp][]} */
const REFUSED = [
  ["no TOML", "stages = = 4", /stages|expected|TOML/i],
  ["an unknown key", `${FINE}stagse = 4\n`, /stagse/],
  ["a number that is none", FINE.replace("stages = 4", "stages = nan"), /stages|nan/i],
  ["no stage", FINE.replace("stages = 4", "stages = 0"), /stage/],
  ["a negative number", FINE.replace("stages = 4", "stages = -1"), /stages|-1/],
  ["a thousand million microbatches", FINE.replace("microbatches = 8", "microbatches = 1000000000"), /passes|microbatches/],
  ["ten thousand stages", FINE.replace("stages = 4", "stages = 10000").replace("microbatches = 8", "microbatches = 1000000"), /passes|stages/],
  ["a time without end", FINE.replace('forward = "1ms"', 'forward = "1e400s"'), /1e400s/],
  ["a time that is too long", FINE.replace('forward = "1ms"', 'forward = "99999999999999h"'), /99999999999999h/],
  ["an infinite time", FINE.replace('forward = "1ms"', "forward = inf"), /forward|inf/],
  ["deep nesting", `schedule = ${"[".repeat(100_000)}`, /./],
  ["deep tables", `${FINE}${"a.".repeat(20_000)}b = 1\n`, /./],
  ["a file that nobody has dropped", `${FINE}profile = "../../../etc/passwd"\n`, /passwd/],
  ["a schedule that is not a name", FINE.replace("1f1b", "/etc/passwd"), /passwd/],
  ["letters that are none", "stages = \"\u0000\uFFFD\u202E\"", /./],
  ["a markup", FINE.replace("1f1b", "<img src=x onerror=document.title='broken'>"), /<img src=x/],
];

onPage("hostile questions in links are refused with a message, and the page lives", {}, async (opened) => {
  for (const [what, scenario, message] of REFUSED) {
    await opened.follow({ view: "play", scenario });
    const asked = (await opened.questions("simulate")).filter(({ request }) => request.text === scenario);
    const failures = asked.flatMap(({ failure }) => failure ? [JSON.parse(failure).message] : []);
    assert.ok(failures.length > 0, `${what} is not refused: ${asked.at(-1)?.broken ?? "there is an answer"}`);
    const [failure] = failures;
    assert.match(failure, message, `of ${what} is said: ${failure}`);
    assert.ok((await opened.text()).includes(failure.split("\n")[0]), `the page does not show of ${what}: ${failure}`);
  }
  await opened.follow({ view: "play", scenario: FINE });
  const { results } = await opened.answer("simulate");
  assert.equal(results[0].schedule, "1f1b");
  assert.equal(await opened.page.title(), "4 stages, 8 microbatches - debubble");
});

onPage("links that are not questions open the page all the same", { link: { view: "<b>", scenario: "%", embed: "\u0000", plan: "%FF" } },
  async (opened) => {
    assert.equal(await opened.chosen(), "Play");
    await opened.page.evaluate(() => { location.hash = "#%FF%C0&=&&scenario=%E0%A4%A"; });
    await opened.rest();
    // An address that is changed by hand is followed.
    await opened.follow({ view: "plan", scenario: FINE });
    assert.equal(await opened.chosen(), "Plan");
    assert.equal((await opened.questions("simulate")).at(-1)?.request.text, FINE);
    assert.equal((await opened.answer("simulate")).results.length, 1);
  });
