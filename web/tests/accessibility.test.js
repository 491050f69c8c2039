// What axe and the keyboard find on every tab, in both colours and at every width.

import assert from "node:assert/strict";

import { prepare, violations, widths } from "./axe.js";
import { VIEWS, onPage } from "./browser.js";

/** @type {import("./browser.js").How[]} */
const LOOKS = [{ scheme: "light" }, { width: 3840, height: 2160, scheme: "dark" }, { width: 360, height: 740 }];

onPage("axe finds nothing on any tab, and nothing sticks out, in light, in dark, at 360 and at 3840 px", {}, async (opened) => {
  await prepare(opened.page);
  for (const look of LOOKS) {
    await opened.look(look);
    for (const tab of VIEWS) {
      await opened.choose(tab);
      const where = `the tab ${tab} at ${look.width ?? 1280} px in ${look.scheme ?? "light"}`;
      assert.deepEqual(await violations(opened.page), [], where);
      const [wide, room] = await widths(opened.page);
      assert.ok(wide <= room, `${where} is ${wide} px wide`);
    }
  }
});

onPage("axe finds nothing in what is folded, chosen or shown over the page, in light, in dark and on a phone", {}, async (opened) => {
  const { page } = opened;
  await prepare(page);
  for (const look of /** @type {import("./browser.js").How[]} */ ([{ scheme: "light" }, { scheme: "dark" }, { width: 360, height: 740 }])) {
    await opened.look(look);
    await opened.rest();
    const where = `${look.width ?? 1280} px in ${look.scheme ?? "light"}`;
    await page.$$eval("#play details", (all) => all.forEach((one) => { one.open = true; }));
    await page.focus(".charts canvas");
    await page.keyboard.press("ArrowRight");
    await (await opened.named("checkbox", "all columns").waitHandle()).click();
    await opened.rest();
    assert.deepEqual(await violations(page), [], `all that unfolds at ${where}`);
    await page.$$eval("details.share", (all) => all.forEach((one) => { one.open = false; }));
    await page.focus(".charts canvas");
    await page.keyboard.press("?");
    assert.deepEqual(await violations(page), [], `the keys at ${where}`);
    await page.keyboard.press("Escape");
    const [wide, room] = await widths(page);
    assert.ok(wide <= room, `${where}: ${wide} px wide`);
  }
});
