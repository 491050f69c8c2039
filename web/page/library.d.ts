// What the page finds beside its own files: the JavaScript that stands before `worker.js`, and what a worker
// lends the library.

/** Loads the library. */
declare function wasm_bindgen(options: { module_or_path: WebAssembly.Module }): Promise<{
  /** Answers the request that the page lends, and hands the answer to the page. */
  work(): void;
}>;

declare namespace wasm_bindgen {
  function version(): string;
}

declare namespace WebAssembly {
  /** A function during which the browser pauses what called it. */
  class Suspending {
    constructor(paused: Function);
  }
  /** The function `exported` that may be paused. */
  function promising(exported: Function): () => Promise<void>;
}

interface Window {
  /** What the library may ask of the worker. */
  page: {
    request(): string;
    files(): Map<string, Uint8Array>;
    answered(answer: string): void;
    refused(failure: string): void;
    progress(what: string, done: number, of: number): void;
    stopped(): boolean | Promise<boolean>;
    now(): number;
    broken(why: string): void;
  };
}

/** Unpacks the library: a small library of its own, which `index.html` loads. */
declare const unpacker: {
  (options: { module_or_path: Uint8Array }): Promise<unknown>;
  unpack(packed: Uint8Array): Uint8Array<ArrayBuffer>;
};
