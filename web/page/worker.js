// The worker: answers one request after the other with the library. `wasm_bindgen` stands before this text.

let broke = null;
let flag = null;

self.page = {
  progress: (what, done, of) => self.postMessage({ progress: { what, done, of: of || null } }),
  now: () => performance.now(),
  broken: (why) => { broke = why; },
  // A worker that computes hears no message. What it can see is whether the page still lends the text
  // behind an address.
  stopped: () => {
    if (!flag) return false;
    try {
      const request = new XMLHttpRequest();
      request.open("GET", flag, false);
      request.send();
      return false;
    } catch {
      return true;
    }
  },
};

self.onmessage = async ({ data }) => {
  if (data.module) {
    await wasm_bindgen({ module_or_path: data.module });
    self.postMessage({ ready: wasm_bindgen.version() });
    return;
  }
  flag = data.flag;
  try {
    self.postMessage({ answer: wasm_bindgen.ask(data.request, data.files || new Map()) });
  } catch (error) {
    // A text is what the library says; anything else is a breakdown, after which it must be loaded anew.
    const failure = typeof error === "string" ? error : null;
    self.postMessage(failure ? { failure } : { broken: broke || String(error) });
  }
};
