// The library in workers: requests out, answers back.

/** The bytes that the page holds as text in the element `id`. */
function bytes(id) {
  const text = document.getElementById(id).textContent.trim();
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** The compiled library, unpacked from the page. `unpacker` is a library of its own, which the page loads. */
async function compiled() {
  const plain = new Blob([bytes("unpack")]).stream().pipeThrough(new DecompressionStream("gzip"));
  await unpacker({ module_or_path: new Uint8Array(await new Response(plain).arrayBuffer()) });
  return WebAssembly.compile(unpacker.unpack(bytes("wasm")));
}

/** How long a worker that is to end may take, in milliseconds. */
const PATIENCE = 10_000;

const library = compiled();
const script = URL.createObjectURL(
  new Blob([document.getElementById("worker").textContent], { type: "text/javascript" }));

/** What the library refuses, with its cure. */
export class Refusal extends Error {
  constructor(failure) {
    super(failure.message || failure.text);
    this.failure = failure;
    this.text = failure.text;
  }
}

/**
 * What goes with a request.
 * @typedef {{ files?: Map<string, Uint8Array>, progress?: function, signal?: AbortSignal }} Options
 */

/** One worker with the library. It answers one request after the other. */
export class Engine {
  constructor() {
    this.turn = Promise.resolve();
    this.worker = null;
    /** The version of the library. */
    this.version = "";
    /** Whether the worker hears that it shall end. */
    this.stops = false;
    this.patience = 0;
  }

  /**
   * The answer to `request`, an object with the name of the request under `ask`.
   * `options.files` is a Map of names to Uint8Array, `options.progress` is told how far the work is, and
   * `options.signal` of an AbortController ends it: with what there is by then, where the request can.
   * @param {{ ask: string, [key: string]: any }} request
   * @param {Options} options
   */
  ask(request, options = {}) {
    const answer = this.turn.then(() => this.answered(request, options));
    this.turn = answer.catch(() => {});
    return answer;
  }

  /** @param {{ ask: string, [key: string]: any }} request @param {Options} options */
  async answered(request, { files, progress, signal }) {
    const worker = await this.started();
    const flag = signal && URL.createObjectURL(new Blob(["go on"]));
    const stop = () => this.stop(flag);
    if (signal?.aborted) throw new Error("stopped");
    signal?.addEventListener("abort", stop);
    try {
      return await new Promise((resolve, reject) => {
        worker.onerror = (event) => { this.end(); reject(new Error(event.message)); };
        worker.onmessage = ({ data }) => {
          if (data.progress) progress?.(data.progress);
          else if (data.failure) reject(new Refusal(JSON.parse(data.failure)));
          else if (data.broken) { this.end(); reject(new Error(`The simulator broke down, which is a mistake of its own: ${data.broken}`)); }
          else resolve(JSON.parse(data.answer));
        };
        this.fail = reject;
        worker.postMessage({ request: JSON.stringify(request), files, flag });
      });
    } finally {
      signal?.removeEventListener("abort", stop);
      clearTimeout(this.patience);
      if (flag) URL.revokeObjectURL(flag);
    }
  }

  // Asks the worker to end with what there is. One that does not hear it is ended.
  stop(flag) {
    URL.revokeObjectURL(flag);
    this.worker?.postMessage({ stop: true });
    this.patience = setTimeout(() => this.end("It was stopped before there was an answer."), this.stops ? PATIENCE : 0);
  }

  /** Starts the worker before there is a request. */
  warm() {
    this.turn = this.turn.then(async () => { await this.started(); }).catch(() => {});
  }

  async started() {
    if (this.worker) return this.worker;
    const worker = new Worker(script);
    const compiled = await library;
    await new Promise((/** @type {(value?: undefined) => void} */ resolve, reject) => {
      worker.onerror = (event) => reject(new Error(event.message));
      worker.onmessage = ({ data }) => {
        [this.version, this.stops] = [data.ready, data.stops];
        resolve();
      };
      worker.postMessage({ library: compiled });
    });
    this.worker = worker;
    return worker;
  }

  /** Ends the worker, and whatever it is at. The next request starts another one. */
  end(why = "ended") {
    this.worker?.terminate();
    this.worker = null;
    this.fail?.(new Error(why));
  }
}

/** After how many milliseconds a request no longer keeps a later one waiting. */
const OLD = 1_500;

/** An engine that is asked the same kind of question again and again: only the latest one matters. */
export class Latest {
  constructor(engine = new Engine()) {
    this.engine = engine;
    this.next = null;
    this.busy = false;
    this.since = 0;
  }

  /** The answer to `request`, or `null` if a later request has come before its turn, or while it took long. */
  ask(request, options) {
    return new Promise((resolve, reject) => {
      this.next?.resolve(null);
      this.next = { request, options, resolve, reject };
      if (!this.busy) this.run();
      else if (performance.now() - this.since > OLD) this.engine.end();
    });
  }

  /** Ends the request that is worked at, and forgets one that waits. */
  stop(why) {
    this.next?.resolve(null);
    this.next = null;
    this.engine.end(why);
  }

  async run() {
    this.busy = true;
    while (this.next) {
      const { request, options, resolve, reject } = this.next;
      this.next = null;
      this.since = performance.now();
      await this.engine.ask(request, options).then(resolve, (error) => (this.next ? resolve(null) : reject(error)));
    }
    this.busy = false;
  }
}
