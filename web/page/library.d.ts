// What the page finds beside its own files: the JavaScript that stands before `worker.js`, and what a worker
// lends the library.

/** Loads the library. */
declare function wasm_bindgen(options: { module_or_path: WebAssembly.Module }): Promise<unknown>;

declare namespace wasm_bindgen {
  /** Answers a request, JSON in and out; what it refuses is thrown as a text. */
  function ask(request: string, files: Map<string, Uint8Array>): string;
  function version(): string;
}

interface Window {
  /** What the library may ask of the worker. */
  page: {
    progress(what: string, done: number, of: number): void;
    stopped(): boolean;
    now(): number;
    broken(why: string): void;
  };
}
