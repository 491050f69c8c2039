// The table of records is that of the command line.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { onPage } from "./browser.js";
import { json } from "./program.js";

const EVIDENCE = fileURLToPath(new URL("../../results/evidence.csv", import.meta.url));
const FOLDER = fileURLToPath(new URL("../../results/records", import.meta.url));

onPage("the records are those of the command line, in families, with what is proved", { link: { view: "records" } }, async (opened) => {
  const known = json("records", "--folder", FOLDER, "--json").records;
  const millis = (/** @type {number} */ nanos) => (nanos / 1e6).toFixed(3);
  const expected = known.map((/** @type {any} */ one) => [
    one.name, millis(one.cost_ns), millis(one.bound_ns), one.gap === 0 ? "optimal" : `${(100 * one.gap).toFixed(2)} %`,
    one.by === one.bound_by ? one.by : `${one.by}; bound: ${one.bound_by}`,
  ]);
  const shown = await opened.page.$$eval("#records [aria-label='Records'] tbody", (all) => all.map((one) => ({
    family: one.querySelector("th")?.textContent ?? "",
    rows: [...one.querySelectorAll("tr")].slice(1).map((row) => [...row.children].map((cell) => cell.textContent ?? "")),
  })));
  const rows = shown.flatMap((family) => family.rows);
  const sorted = (/** @type {string[][]} */ some) => some.toSorted(([one], [other]) => one < other ? -1 : 1);
  assert.deepEqual(sorted(rows), sorted(expected));
  // Counts are by size, not by letters, and each family says how much of it is proved.
  const place = (/** @type {string} */ name) => rows.findIndex(([own]) => own === name);
  const names = ["equal-p4-m8-0.5p", "equal-p8-m8-0.75p", "equal-p8-m8-1.5p", "equal-p8-m16-0.5p", "equal-p16-m16-0.5p"];
  const places = names.map(place);
  assert.deepEqual(places, places.toSorted((a, b) => a - b));
  assert.ok(shown.length >= 10, `${shown.length} families`);
  for (const { family, rows } of shown) {
    const optimal = rows.filter(([, , , gap]) => gap === "optimal").length;
    assert.ok(family.endsWith(`(${optimal} of ${rows.length} proved optimal)`), family);
  }
  assert.equal(await opened.page.$eval("#records", (one) => one.checkVisibility()), true);
  // Checked cells of published tables by evidence, as `reproduce` has written them.
  const evidence = await opened.page.$$eval("#records [aria-label='Published tables'] tr", (all) =>
    all.map((row) => [...row.children].map((cell) => cell.textContent ?? "").join(",")));
  assert.deepEqual(evidence, readFileSync(EVIDENCE, "utf8").trimEnd().split("\n"));
});

onPage("records are sorted by a column and filtered", { link: { view: "records" } }, async (opened) => {
  const { page } = opened, gaps = () => page.$$eval("#records [aria-label='Records'] tbody tr", (all) => all.map((row) => parseFloat(row.children[3].textContent ?? "") || 0));
  await page.$$eval("#records thead button", (all) => all.find((one) => one.textContent === "gap")?.click());
  const up = await gaps();
  assert.deepEqual(up, up.toSorted((a, b) => a - b));
  await page.$$eval("#records thead button", (all) => all.find((one) => one.textContent === "gap")?.click());
  assert.deepEqual(await gaps(), up.toReversed());
  await page.$eval("[aria-label='Filter records']", (one) => {
    /** @type {HTMLInputElement} */ (one).value = "equal-p8 equal";
    one.dispatchEvent(new Event("input", { bubbles: true }));
  });
  const names = await page.$$eval("#records [aria-label='Records'] tbody code", (all) => all.map((one) => one.textContent ?? ""));
  assert.ok(names.length > 0 && names.every((name) => name.startsWith("equal-p8")), names.join());
});
