// Dark or light: as the system says, or as was chosen.

const NAMES = ["system", "light", "dark"];
const KEPT = "debubble theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();
let chosen = "system";

/** Whether the page is dark. */
export function dark() {
  return chosen === "dark" || (chosen === "system" && system.matches);
}

/** Calls `listener` with whether the page is dark, now and at each change. */
export function listen(listener) {
  listeners.add(listener);
  listener(dark());
}

/** Takes the theme `name`. */
export function choose(name) {
  chosen = NAMES.includes(name) ? name : "system";
  document.documentElement.style.colorScheme = chosen === "system" ? "light dark" : chosen;
  keep(chosen);
  listeners.forEach((listener) => listener(dark()));
}

/** The choice of themes in `element`. */
export function begin(element) {
  for (const name of NAMES) element.add(new Option(name, name));
  element.value = kept();
  element.addEventListener("change", () => choose(element.value));
  system.addEventListener("change", () => choose(chosen));
  choose(element.value);
}

// A page that was opened from a disk may have no store.
function kept() {
  try {
    const name = localStorage.getItem(KEPT);
    return NAMES.includes(name) ? name : "system";
  } catch {
    return "system";
  }
}

function keep(name) {
  try {
    localStorage.setItem(KEPT, name);
  } catch {
    // It is asked again next time.
  }
}
