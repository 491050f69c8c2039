// The page loads, wherever it lies, asks nobody for anything, and fits.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

import { BUILT, onPage } from "./browser.js";
import { server } from "./server.js";

onPage("loads from a disk, and asks no host for anything", { from: "disk" }, async (opened) => {
  const { results } = await opened.answer("simulate");
  assert.ok(results.length > 0);
  assert.deepEqual(opened.requests, []);
});

onPage("loads from a server, under a path, with one request", { from: "server" }, async (opened) => {
  const { results } = await opened.answer("simulate");
  assert.ok(results.length > 0);
  assert.deepEqual((await server()).asked, ["/some/where/"]);
});

onPage("its policy keeps it from other hosts and from scripts in texts", {}, async (opened) => {
  const outcome = await opened.page.evaluate(async () => {
    const fetched = await fetch("https://example.org/").then(() => "fetched", () => "refused");
    const shown = await new Promise((resolve) => {
      const image = new Image();
      image.onload = () => resolve("shown");
      image.onerror = () => resolve("refused");
      image.src = "https://example.org/image.png";
    });
    const form = document.createElement("form");
    form.action = "https://example.org/";
    document.body.append(form);
    form.submit();
    return { fetched, shown };
  });
  assert.deepEqual(outcome, { fetched: "refused", shown: "refused" });
  // The browser tells of each that the policy has refused it.
  await opened.page.waitForFunction("watched.refused.filter((url) => url.startsWith('https://example.org')).length === 3");
  // These were tried on purpose, and what is refused is said in the console.
  opened.complaints.length = opened.requests.length = 0;
});

// One that is built for its tests alone is larger.
const IS_QUICK = process.env.WEB_PROFILE === "web-quick";

test("is at most 1.95 MB, compressed", { skip: IS_QUICK && "the page is built for its tests alone" }, () => {
  const bytes = gzipSync(readFileSync(BUILT), { level: 9 }).length;
  assert.ok(bytes <= 1_950_000, `${bytes} bytes`);
});
