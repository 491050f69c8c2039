// The whole question lives in the link.

import assert from "node:assert/strict";

import { Opened, onPage } from "./browser.js";

/** A question that no example asks. */
const QUESTION = `schedule = ["1f1b", "zb-h1", "zb-v"]
stages = 6
microbatches = 18
forward = "10.25ms"
backward-input = ["11ms", "11ms", "11ms", "11ms", "11ms", "13.5ms"]
backward-weight = "7ms"
hop = "333us"
activation = "1GiB"
memory-limit = "9GiB"
`;

onPage("a link restores the question, to the byte of every answer", { link: { view: "play", scenario: QUESTION } },
  async (first) => {
    const link = await first.page.evaluate(() => location.hash);
    const parts = Object.fromEntries(new URLSearchParams(link.slice(1)));
    assert.equal(parts.scenario, QUESTION);
    const second = await Opened.open({ from: "server", link: parts, apart: true });
    try {
      /** @param {Opened} opened */
      const asked = async (opened) => (await opened.questions("simulate")).map(({ request, answer }) => ({ request, answer }));
      const answers = await asked(first);
      assert.ok(answers.length > 0);
      assert.deepEqual(await asked(second), answers);
      assert.equal(await second.text(), await first.text());
      second.quiet();
    } finally {
      await second.close();
    }
  });
