// What axe and the keyboard find on every tab, in both colours and at every width.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { TABS, onPage } from "./browser.js";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** @type {import("./browser.js").How[]} */
const LOOKS = [{ scheme: "light" }, { scheme: "dark" }, { width: 360, height: 740 }, { width: 3840, height: 2160, scheme: "dark" }];

for (const look of LOOKS) {
  const { scheme = "light", width = 1280 } = look;
  onPage(`axe finds nothing, and nothing sticks out, at ${width} px in ${scheme}`, look, async (opened) => {
    const { page } = opened;
    await page.evaluate(AXE);
    for (const tab of TABS) {
      await opened.choose(tab);
      const violations = await page.evaluate(async () => {
        const { violations } = await /** @type {any} */ (window).axe.run(document, { resultTypes: ["violations"] });
        return violations.map((/** @type {any} */ { id, help, nodes }) =>
          `${id}: ${help}: ${nodes.map((/** @type {any} */ node) => node.html.slice(0, 200)).slice(0, 5).join(" | ")}`);
      });
      assert.deepEqual(violations, [], `the tab ${tab}`);
      const [wide, room] = await page.evaluate(() =>
        [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      assert.ok(wide <= room, `the tab ${tab} is ${wide} px wide, and has ${room}`);
    }
  });
}
