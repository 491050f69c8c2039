// What runs in the page before its own scripts: it writes down what the page asks the library.

/**
 * A request of the page, and how it ended.
 * @typedef {object} Asked
 * @property {any} request the request itself
 * @property {string} [answer] the answer, as JSON
 * @property {string} [failure] why the library refused
 * @property {string} [broken] why the library broke down
 * @property {boolean} [ended] whether its worker was ended before it answered
 * @property {number} progress how often it said how far it is
 * @property {number} frames frames that the page has drawn since it was asked
 */

/** Puts `window.watched` in place. It is sent to the browser as text, so it uses nothing from outside. */
export function watch() {
  /** @type {Asked[]} */
  const asked = [];
  /** Addresses that the policy of the page has kept it from. @type {string[]} */
  const refused = [];
  document.addEventListener("securitypolicyviolation", (event) => refused.push(event.blockedURI));

  /** @param {Asked} one */
  const under = (one) => !("answer" in one || "failure" in one || "broken" in one || one.ended);

  /** Workers that load the library: what waits for them has not been asked yet. @type {Set<Worker>} */
  const loading = new Set();

  /** Resolves when nothing has been under way for longer than the page waits before it asks on its own. */
  const rest = () => new Promise((resolve) => {
    let quiet = 0;
    const look = () => {
      quiet = loading.size > 0 || asked.some(under) ? 0 : quiet + 1;
      if (quiet > 10) resolve(null);
      else setTimeout(look, 40);
    };
    look();
  });

  // Frames are counted while there is something to count them for: they cost more than the library.
  let counting = false;
  const count = () => {
    const open = asked.filter(under);
    open.forEach((one) => one.frames += 1);
    counting = open.length > 0;
    if (counting) requestAnimationFrame(count);
  };

  window.Worker = class extends window.Worker {
    /** @param {string | URL} script @param {WorkerOptions} [options] */
    constructor(script, options) {
      super(script, options);
      /** What it was asked and has not answered. @type {Asked[]} */
      this.open = [];
      loading.add(this);
      this.addEventListener("error", () => loading.delete(this));
      this.addEventListener("message", ({ data }) => {
        if (data.ready) loading.delete(this);
        const [first] = this.open;
        if (!first) return;
        if (data.progress) first.progress += 1;
        for (const end of /** @type {const} */ (["answer", "failure", "broken"])) {
          if (data[end] === undefined) continue;
          first[end] = data[end];
          this.open.shift();
        }
      });
    }

    /** @param {any} message @param {any} rest */
    postMessage(message, ...rest) {
      if (message.request) {
        const one = { request: JSON.parse(message.request), progress: 0, frames: 0 };
        asked.push(one);
        this.open.push(one);
        if (!counting) requestAnimationFrame(count);
        counting = true;
      }
      super.postMessage(message, ...rest);
    }

    terminate() {
      loading.delete(this);
      this.open.forEach((one) => one.ended = true);
      super.terminate();
    }
  };
  /** @type {any} */ (window).watched = { asked, refused, rest };
}
