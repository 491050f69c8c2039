// Markup in texts of strangers stays text: no element and no script comes of it.

import assert from "node:assert/strict";

import { VIEWS, onPage } from "./browser.js";

/** @param {string} where */
const markup = (where) => `</title></script><img src=x onerror=broken.push('${where}')><svg onload=broken.push('${where}')>`;

const SCENARIO = `title = ${JSON.stringify(markup("title"))}
source = ${JSON.stringify(markup("source"))}
schedule = ["1f1b", "zb-h1"]
stages = 4
microbatches = 8
forward = "1ms"
backward-input = "1ms"
backward-weight = "1ms"
activation = "1GiB"
memory-limit = "4GiB"

[[setting]]
name = ${JSON.stringify(markup("setting"))}
`;

/** The library's page and the browser's own have none of these. */
const STRANGE = "img, script[src], iframe, object, embed, [onerror], [onload], a[href^='javascript:' i]";

onPage("markup in a question stays text on every tab", {}, async (opened) => {
  const { page } = opened;
  await page.evaluate(() => { /** @type {any} */ (window).broken = []; });
  await opened.follow({ view: "play", scenario: SCENARIO });
  const { results } = await opened.answer("simulate");
  assert.equal(results[0].setting, markup("setting"));
  for (const tab of VIEWS) {
    await opened.choose(tab);
    // All that is folded away is shown, too.
    await page.$$eval("details", (all) => all.forEach((one) => { one.open = true; }));
    await opened.rest();
    assert.deepEqual(await page.$$eval(STRANGE, (all) => all.map((one) => one.outerHTML)), [], `on the tab ${tab}`);
  }
  assert.deepEqual(await page.evaluate(() => /** @type {any} */ (window).broken), []);
  assert.ok((await page.content()).includes("&lt;img src=x"), "no text shows the markup");
});
