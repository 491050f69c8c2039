// Small pieces of the page.

/**
 * A new element `tag` with `properties`, of which `class` and those with a dash are attributes, and
 * `children`, elements or texts. Texts are shown as they are, never read as markup.
 */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name === "class" || name.includes("-")) element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A button that says `text` and does `act`. */
export function button(text, act, properties = {}) {
  const one = make("button", { type: "button", ...properties }, text);
  one.addEventListener("click", act);
  return one;
}

let last = 0;

/** An id that no other element has. */
export function fresh(name) {
  last += 1;
  return `${name}-${last}`;
}

/** A function that calls `act` with the latest arguments, `delay` milliseconds after the last call. */
export function settled(act, delay) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...values), delay);
  };
}

/** A picture that the library has drawn, which escapes all names in it. */
export function picture(svg, label) {
  const figure = make("div", { class: "picture", role: "img", "aria-label": label });
  figure.innerHTML = svg;
  return figure;
}

/** The sentences of the headline of a sheet as elements. */
export function headline(parts) {
  return parts.flatMap((part) => part.headline ?? []).map((one) => make("p", { class: "lead" }, one));
}

/** The sentences of `text`: lines that are indented further than the one above continue it. */
const prose = (text) => text.trim().split(/\n(?!\s+[^\s-])/).map((one) => one.replaceAll(/\s+/g, " ").trim()).filter(Boolean);

/** The parts of a sheet of the library below its headline, tables and texts, as elements. */
export function sheet(parts) {
  return parts.flatMap((part) => {
    if (part.headline) return [];
    if (typeof part === "string") return prose(part).map((one) => make("p", { class: "note" }, one));
    const cells = (tag, row) => row.map((cell) => make(tag, {}, cell));
    const head = make("tr", {}, ...cells("th", part.header));
    const rows = part.rows.map((row, at) =>
      make("tr", { class: part.best.includes(at) ? "taken" : undefined }, ...cells("td", row)));
    const table = make("table", { class: "figures" }, make("thead", {}, head), make("tbody", {}, ...rows));
    return [make("div", { class: "wide", tabIndex: 0, role: "region", "aria-label": part.header.filter(Boolean).join(", ") }, table)];
  });
}
