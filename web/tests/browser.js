// A real browser, one for all tests, and pages in it that write down what they ask and say.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

import puppeteer from "puppeteer-core";

import { watch } from "./watch.js";
import { server } from "./server.js";

/** The page as it was built: the file that DEBUBBLE_PAGE names, else that of `make web`. */
export const BUILT = process.env.DEBUBBLE_PAGE ?? fileURLToPath(new URL("../dist/index.html", import.meta.url));

/** The names of the tabs, as they stand. */
export const TABS = ["Play", "Search", "Plan"];
/** The names of the other questions, as they stand in their menu. */
export const OTHERS = ["How should I pack samples of unequal length?", "Where does the time of an RL step go?", "Where should a vision encoder run?",
  "What does a failed worker cost?", "What are the best known orders?", "What is in my file?"];
/** The names of all views. */
export const VIEWS = [...TABS, ...OTHERS];

const ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
  "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"];

/** Longer than anything that a test waits for takes on a machine with much else to do. */
const PATIENCE = 60_000;

/** @type {Promise<import("puppeteer-core").Browser> | null} */
let started = null;

/** The browser. */
export function browser() {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  started ??= puppeteer.launch({ executablePath, headless: true, args: ARGUMENTS });
  return started;
}

after(async () => {
  await (await started)?.close();
  await (await server()).end();
});

/**
 * How a page is opened.
 * @typedef {object} How
 * @property {"disk" | "server"} [from] where it lies: on the disk, or under a path of a static server
 * @property {Record<string, string>} [link] what stands behind `#` in its address
 * @property {number} [width] in CSS pixels
 * @property {number} [height] in CSS pixels
 * @property {"light" | "dark"} [scheme] the colours that the system asks for
 * @property {boolean} [apart] whether it shares nothing with other pages, as if for another person
 */

/** What stands behind `#`. @param {Record<string, string>} link */
function written(link) {
  return Object.entries(link).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
}

/** The address of the page with `link` behind `#`. @param {How} how */
export async function address({ from = "disk", link = {} }) {
  const page = from === "disk" ? pathToFileURL(BUILT).href : (await server()).address;
  const hash = written(link);
  return hash ? `${page}#${hash}` : page;
}

/** A page of debubble, and what it has said and asked for since it was opened. */
export class Opened {
  /** @param {import("puppeteer-core").Page} page @param {string} address */
  constructor(page, address) {
    this.page = page;
    /** Where it was opened, with what stands behind `#`. */
    this.address = address;
    /** Errors and warnings, of the console and of scripts. @type {string[]} */
    this.complaints = [];
    /** What hosts were asked for, whether or not they were reached. @type {string[]} */
    this.requests = [];
  }

  /** @param {How} how */
  static async open(how = {}) {
    const all = await browser();
    const context = how.apart ? await all.createBrowserContext() : all.defaultBrowserContext();
    const opened = new Opened(await context.newPage(), await address(how));
    await opened.prepare(how);
    await opened.page.goto(opened.address);
    await opened.ready();
    return opened;
  }

  /** @param {How} how */
  async prepare(how) {
    const { page } = this;
    page.setDefaultTimeout(PATIENCE);
    page.on("console", (message) => {
      const kind = message.type();
      if (kind === "error" || kind === "warn") this.complaints.push(`${kind}: ${message.text()}`);
    });
    page.on("pageerror", (error) => this.complaints.push(`script: ${error}`));
    page.on("request", (request) => this.asked(request.url()));
    page.on("workercreated", (worker) => {
      worker.client.on("Network.requestWillBeSent", ({ request }) => this.asked(request.url));
      // A worker that has ended by now asks for nothing more.
      worker.client.send("Network.enable").catch(() => {});
    });
    await this.look(how);
    await page.evaluateOnNewDocument(watch);
  }

  /** Gives the page a size and colours. @param {How} how */
  async look({ width = 1280, height = 900, scheme = "light" }) {
    await this.page.setViewport({ width, height });
    await this.page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  }

  /** @param {string} url */
  asked(url) {
    if (!/^(data|blob|file):/.test(url)) this.requests.push(url);
  }

  /** Waits until the page has loaded the library and answered all that it asked it. */
  async ready() {
    const { page } = this;
    await page.waitForFunction(() => document.querySelector("[role=status]")?.textContent !== "Loading the simulator …");
    await this.rest();
  }

  /** Waits until nothing is being worked out, and the page asks nothing more. */
  async rest() {
    await this.page.evaluate(() => /** @type {any} */ (window).watched.rest());
  }

  /**
   * What the page has asked the library so far, with the answers that have come.
   * @param {string} [kind] only requests of this name
   * @returns {Promise<import("./watch.js").Asked[]>}
   */
  async questions(kind) {
    return this.page.evaluate((kind) => /** @type {any} */ (window).watched.asked
      .filter((/** @type {any} */ one) => !kind || one.request.ask === kind), kind);
  }

  /**
   * Waits until the last request of the name `kind` is as `is` says.
   * @param {string} kind @param {(one: import("./watch.js").Asked) => boolean} is
   */
  async until(kind, is) {
    const last = `watched.asked.findLast((one) => one.request.ask === ${JSON.stringify(kind)})`;
    await this.page.waitForFunction(`(() => { const last = ${last}; return last && (${is})(last); })()`);
  }

  /** The last answer to a request of the name `kind`. @param {string} kind */
  async answer(kind) {
    const last = await this.page.evaluate((kind) => /** @type {any} */ (window).watched.asked
      .findLast((/** @type {any} */ one) => one.request.ask === kind && one.answer)?.answer, kind);
    assert.ok(last, `the page has no answer to "${kind}"`);
    return JSON.parse(last);
  }

  /** The questions to begin with of this kind. @param {string} [of] @returns {Promise<any>} */
  async examples(of = "scenario") {
    const asked = (await this.questions("examples")).find(({ request, answer }) => request.of === of && answer);
    assert.ok(asked?.answer, `the page has asked for no examples of "${of}"`);
    return JSON.parse(asked.answer);
  }

  /** Follows a link to this page, as if it were typed. @param {Record<string, string>} link */
  async follow(link) {
    await this.page.evaluate((to) => { location.hash = to; }, written(link));
    await this.rest();
  }

  /** Chooses the tab of this name. @param {string} tab */
  async choose(tab) {
    if (OTHERS.includes(tab)) await this.named("button", "Other questions").click();
    await this.named(OTHERS.includes(tab) ? "menuitemradio" : "tab", tab).click();
    await this.rest();
  }

  /** The name of the tab that is chosen. */
  chosen() {
    return this.page.$eval("[role=tab][aria-selected=true], [aria-checked=true][role=menuitemradio]", (tab) => tab.textContent);
  }

  /** Presses the first button of this name that can be pressed. @param {string} name */
  async press(name) {
    const buttons = await this.page.$$(`::-p-aria(${name}[role="button"])`);
    for (const button of buttons) {
      if (await button.evaluate((one) => /** @type {HTMLButtonElement} */ (one).disabled)) continue;
      await button.click();
      return;
    }
    assert.fail(`there is no button "${name}" that can be pressed`);
  }

  /** Chooses files of these paths in the tab that is shown. @param {...string} paths */
  async give(...paths) {
    const field = await this.page.waitForSelector("[role=tabpanel]:not([hidden]) input[type=file]");
    await field?.uploadFile(...paths);
    await this.rest();
  }

  /** The text that the page shows. */
  text() {
    return this.page.evaluate(() => document.body.innerText);
  }

  /** The element of `role` whose accessible name is `name`. @param {string} role @param {string} name */
  named(role, name) {
    return this.page.locator(`::-p-aria(${name}[role="${role}"])`);
  }

  /** Has asked no other host, and has nothing to complain of. */
  quiet() {
    const strange = this.requests.filter((url) => url !== this.address);
    assert.deepEqual({ complaints: this.complaints, strange }, { complaints: [], strange: [] });
  }

  async close() {
    await this.page.close();
  }
}

/**
 * A test of the page that `how` opens. Whatever it does, the page must not complain in the console or ask
 * another host for anything.
 * @param {string} name
 * @param {How} how
 * @param {(opened: Opened, t: import("node:test").TestContext) => Promise<void>} body
 */
export function onPage(name, how, body) {
  test(name, async (t) => {
    const opened = await Opened.open(how);
    try {
      await body(opened, t);
      opened.quiet();
    } finally {
      await opened.close();
    }
  });
}
