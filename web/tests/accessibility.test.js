// What axe and the keyboard find on every tab, in both colours and at every width.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { TABS, onPage } from "./browser.js";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** @type {import("./browser.js").How[]} */
const LOOKS = [{ scheme: "light" }, { width: 3840, height: 2160, scheme: "dark" }, { width: 360, height: 740 }];

onPage("axe finds nothing on any tab, and nothing sticks out, in light, in dark, at 360 and at 3840 px", {}, async (opened) => {
  await opened.page.evaluate(AXE);
  for (const look of LOOKS) {
    await opened.look(look);
    for (const tab of TABS) {
      await opened.choose(tab);
      const where = `the tab ${tab} at ${look.width ?? 1280} px in ${look.scheme ?? "light"}`;
      assert.deepEqual(await opened.page.evaluate(violations), [], where);
      const [wide, room] = await opened.page.evaluate(() =>
        [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      assert.ok(wide <= room, `${where} is ${wide} px wide`);
    }
  }
});

onPage("axe finds nothing in what is folded, chosen or shown over the page, in light, in dark and on a phone", {}, async (opened) => {
  const { page } = opened;
  await page.evaluate(AXE);
  for (const look of /** @type {import("./browser.js").How[]} */ ([{ scheme: "light" }, { scheme: "dark" }, { width: 360, height: 740 }])) {
    await opened.look(look);
    await opened.rest();
    const where = `${look.width ?? 1280} px in ${look.scheme ?? "light"}`;
    await page.$$eval("#play details", (all) => all.forEach((one) => { one.open = true; }));
    await page.focus(".charts canvas");
    await page.keyboard.press("ArrowRight");
    await (await opened.named("checkbox", "all columns").waitHandle()).click();
    await opened.rest();
    assert.deepEqual(await page.evaluate(violations), [], `all that unfolds at ${where}`);
    await page.$$eval("details.share", (all) => all.forEach((one) => { one.open = false; }));
    await page.focus(".charts canvas");
    await page.keyboard.press("?");
    assert.deepEqual(await page.evaluate(violations), [], `the keys at ${where}`);
    await page.keyboard.press("Escape");
    const [wide, room] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
    assert.ok(wide <= room, `${where}: ${wide} px wide`);
  }
});

/** What axe finds, with the elements to blame. */
async function violations() {
  const { violations } = await /** @type {any} */ (window).axe.run(document, { resultTypes: ["violations"] });
  return violations.map((/** @type {any} */ { id, help, nodes }) =>
    `${id}: ${help}: ${nodes.map((/** @type {any} */ node) => node.html.slice(0, 200)).slice(0, 5).join(" | ")}`);
}
