// The worker: answers one request after the other with the library. `wasm_bindgen` stands before this text.

let asked = null;
let broke = null;
let stopping = false;
let work = null;

/** Lets the messages in that have come meanwhile. */
const turns = new MessageChannel();
const turn = () => new Promise((resolve) => {
  turns.port1.onmessage = resolve;
  turns.port2.postMessage(null);
});

// A worker that computes hears no message, unless the browser can pause the library. Where it cannot, the worker
// sees whether the page still lends the text behind an address, which it sees of pages that have a host.
const pauses = "Suspending" in WebAssembly && "promising" in WebAssembly;

async function heard() {
  await turn();
  return stopping;
}

function looked() {
  if (!asked.flag) return false;
  try {
    const request = new XMLHttpRequest();
    request.open("GET", asked.flag, false);
    request.send();
    return false;
  } catch {
    return true;
  }
}

self.page = {
  request: () => asked.request,
  files: () => asked.files || new Map(),
  answered: (answer) => self.postMessage({ answer }),
  refused: (failure) => self.postMessage({ failure }),
  progress: (what, done, of) => self.postMessage({ progress: { what, done, of: of || null } }),
  now: () => performance.now(),
  broken: (why) => { broke = why; },
  stopped: pauses ? heard : looked,
};

/** Loads the library, so that it is paused where it asks whether to end. */
async function load(library) {
  const loader = /** @type {any} */ (WebAssembly);
  const { instantiate } = loader;
  loader.instantiate = (compiled, imports) => {
    for (const part of Object.values(imports)) {
      const name = Object.keys(part).find((one) => one.startsWith("__wbg_stopped_"));
      if (name && pauses) part[name] = new WebAssembly.Suspending(part[name]);
    }
    return instantiate(compiled, imports);
  };
  const { work: answer } = await wasm_bindgen({ module_or_path: library });
  work = pauses ? WebAssembly.promising(answer) : answer;
  self.postMessage({ ready: wasm_bindgen.version(), stops: pauses || self.origin !== "null" });
}

self.onmessage = async ({ data }) => {
  if (data.library) return load(data.library);
  if (data.stop) {
    stopping = true;
    return undefined;
  }
  [asked, stopping] = [data, false];
  try {
    await work();
  } catch (error) {
    // The library has broken down, and must be loaded anew.
    self.postMessage({ broken: broke || String(error) });
  }
  return undefined;
};
