// The question in the address of the page: whoever opens the link sees the same.

/** The parts of the address behind `#`, by name. */
export function read(hash = location.hash) {
  return Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
}

/** An address of this page with `parts` behind `#`; those that are empty are left out. */
export function address(parts) {
  const filled = Object.entries(parts).filter(([, value]) => value !== undefined && value !== null && value !== "");
  // Spaces as %20: a `+` is read as one by some programs and not by others.
  const hash = new URLSearchParams(filled).toString().replaceAll("+", "%20");
  return `${location.href.split("#")[0]}#${hash}`;
}

/** Shows `parts` in the address, without a step in the history of the browser. */
export function write(parts) {
  history.replaceState(null, "", address(parts));
}

/** Shows `parts` in the address, as a step that Back takes back. */
export function step(parts) {
  if (address(parts) !== location.href) history.pushState(null, "", address(parts));
}
