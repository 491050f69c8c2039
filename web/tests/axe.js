// The findings of axe on a page.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Puts axe into `page`. @param {import("puppeteer-core").Page} page */
export async function prepare(page) {
  await page.evaluate(AXE);
}

/** The findings of axe on `page`, with the elements to blame. @param {import("puppeteer-core").Page} page @returns {Promise<string[]>} */
export function violations(page) {
  return page.evaluate(async () => {
    const { violations } = await /** @type {any} */ (window).axe.run(document, { resultTypes: ["violations"] });
    return violations.map((/** @type {any} */ { id, help, nodes }) =>
      `${id}: ${help}: ${nodes.map((/** @type {any} */ node) => node.html.slice(0, 200)).slice(0, 5).join(" | ")}`);
  });
}

/** The width of the content of `page`, and of the window. @param {import("puppeteer-core").Page} page */
export function widths(page) {
  return page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
}
