// Long work: a button that begins it, one that stops it, and how far it is.

import { Engine } from "page/engine.js";
import { button, make } from "page/dom.js";

/** Work that a button begins: `act` is called with an engine of its own and with `signal` and `progress` for its
 *  requests; what it throws is shown below. */
export class Work {
  constructor(name, act) {
    this.act = act;
    this.engine = new Engine();
    this.begin = button(name, () => this.run(), { class: "begin" });
    this.stop = button("Stop", () => this.halt(), { disabled: true });
    this.bar = make("progress", { hidden: true, "aria-label": `Progress of: ${name}` });
    this.told = make("p", { class: "told", role: "status" });
    this.fault = make("pre", { class: "error", role: "alert", hidden: true });
    this.element = make("div", { class: "work" }, make("div", { class: "buttons" }, this.begin, this.stop),
      this.bar, this.told, this.fault);
  }

  /** Does the work; a second call while it runs does nothing. */
  async run() {
    if (this.control) return;
    this.control = new AbortController();
    this.show(true);
    this.complain("");
    try {
      const done = await this.act(this.engine, { signal: this.control.signal, progress: (now) => this.progress(now) });
      this.told.textContent = done ?? "";
    } catch (error) {
      this.told.textContent = "";
      this.complain(error.text || error.message);
    } finally {
      this.control = null;
      this.show(false);
    }
  }

  /** Asks it to end with what there is by now. */
  halt() {
    this.stop.disabled = true;
    this.told.textContent = "Stopping …";
    this.control?.abort();
  }

  /** Shows how far it is: `done` of `of` steps, of which nobody may know the number. */
  progress({ what, done, of }) {
    if (of > 1) this.bar.value = done / of;
    else this.bar.removeAttribute("value");
    if (!this.control?.signal.aborted && what) this.told.textContent = what;
  }

  show(running) {
    this.begin.disabled = running;
    this.stop.disabled = !running;
    this.bar.hidden = !running;
    this.bar.removeAttribute("value");
    if (running) this.told.textContent = "At work …";
  }

  /** Shows what went wrong; nothing if `text` is empty. */
  complain(text) {
    this.fault.textContent = text;
    this.fault.hidden = !text;
  }
}
