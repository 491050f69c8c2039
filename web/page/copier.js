// Texts that go to the clipboard, or are shown to be copied by hand.

import { make } from "page/dom.js";

/** Copies texts, and says so in `said`; without leave to write to the clipboard, the text stands in `shown`. */
export class Copier {
  constructor() {
    this.said = make("p", { class: "told", role: "status" });
    this.shown = make("textarea", { rows: 6, readOnly: true, spellcheck: false, hidden: true, "aria-label": "What was copied" });
  }

  /** Copies `text`, which is called `what`. */
  async copy(text, what) {
    this.shown.value = text;
    this.shown.hidden = false;
    try {
      await navigator.clipboard.writeText(text);
      this.say(`${what}: copied.`);
    } catch {
      this.shown.select();
      this.say(`${what}: copy it from below.`);
    }
  }

  /** Says `text`. */
  say(text) { this.said.textContent = text; }

  /** Forgets what was copied. */
  clear() {
    this.shown.hidden = true;
    this.say("");
  }
}
