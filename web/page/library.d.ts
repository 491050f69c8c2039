// What the page finds beside its own files: the JavaScript that stands before `worker.js`, what a worker lends
// the library, and what TypeScript does not know of WebAssembly.

/** Loads the library. `work` answers the request that the worker lends. */
declare function wasm_bindgen(options: { module_or_path: WebAssembly.Module }): Promise<{ work(): void }>;

declare namespace wasm_bindgen {
  function version(): string;
}

declare namespace WebAssembly {
  /** A function of the page during which the library is paused. */
  class Suspending {
    constructor(act: Function);
  }
  /** A function of the library that may be paused. */
  function promising(act: Function): () => Promise<void>;
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
