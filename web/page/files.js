// Files: into the page, and out of it. They never leave the browser but through a download.

import { button } from "page/dom.js";

/** Text as the bytes of a file. */
export const bytes = (text) => new TextEncoder().encode(text);

/** Has the browser save `content`, a text or bytes, as a file called `name`. */
export function save(name, content) {
  const address = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
  const anchor = document.createElement("a");
  Object.assign(anchor, { href: address, download: name });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** A button that saves what `content` gives, at once or later, as `name`; what it throws goes to `failed`. */
export function saver(text, name, content, failed) {
  return button(text, async () => {
    try {
      save(name, await content());
    } catch (error) {
      failed?.(error.text || error.message);
    }
  });
}

/** `files` of the browser as a Map of names to bytes; the library is asked first whether to read each. */
export async function read(engine, files) {
  const all = new Map();
  for (const file of files) {
    await engine.ask({ ask: "admit", name: file.name, bytes: file.size });
    all.set(file.name, new Uint8Array(await file.arrayBuffer()));
  }
  return all;
}

/** Has `taken` called with the files that are dropped on `element`. */
export function droppable(element, taken) {
  element.addEventListener("dragover", (event) => {
    event.preventDefault();
    element.classList.add("over");
  });
  element.addEventListener("dragleave", () => element.classList.remove("over"));
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    event.stopPropagation();
    element.classList.remove("over");
    taken([...event.dataTransfer.files]);
  });
}
