// The question leaves the page beside its timelines: as a link, a frame, a picture, figures, a command and Python.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname } from "node:path";

import { Opened, onPage } from "./browser.js";
import { FOLDER, PROGRAM, json, file } from "./program.js";

const SCENARIO = `schedule = ["1f1b", "zb-h1"]
stages = 3
microbatches = 6
forward = "1ms"
backward-input = "1ms"
backward-weight = "1ms"
activation = "1GiB"
memory-limit = "4GiB"
`;
const LINK = { view: "play", scenario: SCENARIO };

/** Opens the menu, and gives what the entry `name` copies. @param {Opened} opened @param {string} name */
async function copied(opened, name) {
  if (!await opened.page.$eval(".share", (one) => /** @type {HTMLDetailsElement} */ (one).open)) await opened.page.click(".share > summary");
  await opened.press(name);
  await opened.rest();
  return opened.page.$eval(".share textarea", (one) => /** @type {HTMLTextAreaElement} */ (one).value);
}

/** The content that the entry `name` saves. @param {Opened} opened @param {string} name */
async function saved(opened, name) {
  const { page } = opened;
  await page.evaluate(() => {
    const { createObjectURL } = URL;
    /** @type {HTMLElement} */ (document.querySelector(".share .told")).textContent = "";
    URL.createObjectURL = (blob) => {
      /** @type {any} */ (window).lastSaved = blob;
      return createObjectURL.call(URL, blob);
    };
  });
  if (!await page.$eval(".share", (one) => /** @type {HTMLDetailsElement} */ (one).open)) await page.click(".share > summary");
  await opened.press(name);
  await page.waitForFunction(() => / is saved\.$/.test(document.querySelector(".share .told")?.textContent ?? ""));
  return Buffer.from(await page.evaluate(async () => [...new Uint8Array(await /** @type {any} */ (window).lastSaved.arrayBuffer())]));
}

onPage("a link and a frame show the same question", { link: LINK }, async (opened) => {
  const link = new URL(await copied(opened, "Link"));
  assert.equal(new URLSearchParams(link.hash.slice(1)).get("scenario"), SCENARIO);
  const frame = await copied(opened, "Embed code");
  const address = /src="([^"]*)"/.exec(frame)?.[1].replaceAll("&amp;", "&") ?? "";
  const parts = Object.fromEntries(new URLSearchParams(new URL(address).hash.slice(1)));
  assert.deepEqual([parts.embed, parts.scenario], ["1", SCENARIO]);
  const second = await Opened.open({ link: parts });
  try {
    assert.deepEqual((await second.answer("simulate")).results, (await opened.answer("simulate")).results);
    second.quiet();
  } finally {
    await second.close();
  }
});

onPage("the commands of the menu give the answer of the page", { link: LINK }, async (opened) => {
  const command = await copied(opened, "Command line");
  const path = `${dirname(PROGRAM)}:${process.env.PATH}`;
  const ran = spawnSync("bash", ["-euc", command.replace(/\n$/, " --json\n")], { cwd: FOLDER, encoding: "utf8", env: { ...process.env, PATH: path } });
  assert.equal(ran.status, 0, ran.stderr);
  const { results } = await opened.answer("simulate");
  assert.deepEqual(JSON.parse(ran.stdout).results, results);
  const python = await copied(opened, "Python");
  assert.match(python, /^import debubble as db\n/);
  assert.ok(python.includes(SCENARIO.trim()));
});

onPage("pictures and figures are saved from the menu", { link: LINK }, async (opened) => {
  assert.match((await saved(opened, "SVG")).toString("utf8", 0, 200), /<svg/);
  assert.deepEqual([...(await saved(opened, "PNG")).subarray(0, 4)], [0x89, 0x50, 0x4e, 0x47]);
  assert.match((await saved(opened, "CSV")).toString("latin1", 0, 2000), /^[^\n]*schedule[^\n]*\n.*1f1b/s);
  assert.equal((await saved(opened, "Scenario (TOML)")).toString(), SCENARIO);
  assert.ok((await saved(opened, "CSV for torch")).length > 0);
  assert.ok(json("simulate", file("saved.toml", SCENARIO), "--json").results.length === 2);
});

onPage("the frame that the book prints shows its question, without a word of flags", {}, async (opened) => {
  const book = readFileSync(new URL("../../docs/how-to/web-page.md", import.meta.url), "utf8");
  const snippets = [...book.matchAll(/<iframe src="[^"#]*#([^"]*)"/g)].map(([, hash]) => hash.replaceAll("&amp;", "&"));
  assert.ok(snippets.length > 0);
  for (const snippet of snippets) {
    const link = Object.fromEntries(new URLSearchParams(snippet));
    const second = await Opened.open({ link });
    try {
      assert.equal(await second.page.$eval("[role=alert]", (one) => one.checkVisibility()), false, await second.text());
      const { results } = await second.answer("simulate");
      assert.ok(results.length > 0);
      const stages = /stages = (\d+)/.exec(link.scenario ?? "")?.[1];
      if (stages) assert.equal(results[0].stages, Number(stages));
      const { examples } = await second.examples();
      const asked = examples.find((/** @type {any} */ one) => one.name === link.example);
      if (link.example) assert.equal(await second.page.$eval("h2", (one) => one.textContent), asked.title);
      second.quiet();
    } finally {
      await second.close();
    }
  }
  opened.quiet();
});

onPage("Export beside the headline offers the order of the schedule that it names", { link: LINK }, async (opened) => {
  const best = await opened.page.$eval(".headline strong", (one) => one.textContent);
  assert.notEqual(best, "1f1b");
  await opened.press("Export");
  assert.equal(await opened.page.$eval("select[aria-label=Schedule]", (one) => /** @type {HTMLSelectElement} */ (one).value), best);
});
