// The menu that takes the question of “Play” elsewhere: links, pictures, figures, orders and code.

import { Copier } from "page/copier.js";
import { button, make } from "page/dom.js";
import { bytes, save } from "page/files.js";
import * as link from "page/link.js";
import { figures } from "page/results.js";
import * as state from "page/state.js";

/** The name of the question among the files of a request, and of the file that a command reads. */
const SCENARIO = "scenario.toml";
/** Pixels of a picture for each of its own, and the most on a side: browsers draw no larger ones. */
const SCALE = 2, MOST_WIDE = 16_000;

/** The commands that ask the command line the question `text`: to simulate it, or `name` with `flags`. */
export function command(text, name = "simulate", ...flags) {
  const end = ["END", "END_OF_QUESTION"].find((word) => !text.split("\n").includes(word));
  return `cat > ${SCENARIO} <<'${end}'\n${text.trimEnd()}\n${end}\n${["debubble", name, SCENARIO, ...flags].join(" ")}\n`;
}

/** Python that asks the question `text`: to simulate it, or `name` with `words`. */
export function python(text, name = "simulate", ...words) {
  const plain = !text.includes("'''") && !/[\\']$/.test(text.trimEnd());
  const literal = plain ? `r'''\n${text.trimEnd()}\n'''` : JSON.stringify(text);
  return `import debubble as db\n\nquestion = db.Question.from_toml(${literal})\nprint(db.${name}(${["question", ...words].join(", ")}))\n`;
}

/** The address of the question, with the page around it or, with `embed`, for a frame. */
export function address(embed = null) {
  return link.address({ view: "play", scenario: state.now.scenario, embed, ...embed ? {} : looked() });
}

// The part of the timelines that is shown.
function looked() {
  const { from, to, microbatch } = link.read();
  return { from, to, microbatch };
}

/** HTML that shows the question in a page of one's own. */
export function embedding() {
  const quoted = address("1").replaceAll("&", "&amp;").replaceAll('"', "&quot;");
  return `<iframe src="${quoted}" title="debubble" width="100%" height="720" loading="lazy"></iframe>\n`;
}

/** The picture `svg` as a PNG. */
async function png(svg) {
  const source = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" })), image = new Image();
  try {
    image.src = source;
    await image.decode();
    const scale = Math.min(SCALE, MOST_WIDE / Math.max(image.width, image.height, 1));
    const canvas = Object.assign(document.createElement("canvas"), { width: image.width * scale, height: image.height * scale });
    const pen = canvas.getContext("2d");
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
    return new Uint8Array(await blob.arrayBuffer());
  } finally {
    URL.revokeObjectURL(source);
  }
}

/** The menu. */
export class Share {
  constructor(engine) {
    this.engine = engine;
    this.schedule = make("select", { "aria-label": "Schedule" });
    this.copier = new Copier();
    this.fault = make("pre", { class: "error", role: "alert", hidden: true });
    this.element = /** @type {HTMLDetailsElement} */ (make("details", { class: "share" }, make("summary", {}, "Share"), this.menu()));
    this.element.addEventListener("toggle", () => { 
      if (!this.element.open) return;
      this.complain("");
      this.copier.clear();
    });
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.element.open = false;
      this.element.querySelector("summary").focus();
      event.stopPropagation();
    });
    addEventListener("pointerdown", ({ target }) => {
      if (!this.element.contains(/** @type {Node} */ (target))) this.element.open = false;
    });
  }
  menu() {
    const group = (name, ...buttons) => make("div", { class: "buttons", role: "group", "aria-label": name }, make("span", { class: "name" }, name), ...buttons);
    const copy = (text, what) => button(text, () => this.copier.copy(what(), text));
    const file = (text, name, what) => button(text, () => this.save(name, what));
    const order = (text, name, form) => file(text, name, () => this.exported(form));
    return make("div", { class: "menu" },
      group("Copy", copy("Link", () => address()), copy("Embed code", embedding), copy("Command line", () => command(state.now.scenario)),
        copy("Python", () => python(state.now.scenario))),
      group("Picture", file("SVG", "timelines.svg", () => this.picture()), file("PNG", "timelines.png", async () => png(await this.picture()))),
      group("Figures", file("CSV", "figures.csv", async () => (await this.ask({ ask: "sweep", file: SCENARIO })).csv),
        file("Scenario (TOML)", SCENARIO, () => state.now.scenario)),
      group("Order of", this.schedule, order("As text", "order.txt", "text"), order("CSV for torch", "order.csv", "torch-csv"),
        order("Table for Primus", "primus.json", "primus"), order("Trace for Perfetto", "timeline.json", "chrome")),
      this.copier.said, this.copier.shown, this.fault);
  }
  /** Opens the menu, and puts the focus in it. */
  open() {
    this.element.open = true;
    this.element.scrollIntoView({ block: "center" });
    this.element.querySelector("button").focus();
  }
  /** Offers the orders of the schedules of `answer`, that of its headline chosen. */
  take(answer) {
    const { points } = answer, best = points[figures(answer).best[0]]?.schedule;
    this.schedule.replaceChildren(...[...new Set(points.map((one) => one.schedule))]
      .map((name) => make("option", { value: name, selected: name === best }, name)));
  }
  /** Offers the order of the schedule `name`, too, and chooses it. */
  prefer(name) {
    if (![...this.schedule.options].some((one) => one.value === name)) this.schedule.append(make("option", { value: name }, name));
    this.schedule.value = name;
  }
  ask(request) {
    return this.engine.ask(request, { files: new Map([...state.now.files, [SCENARIO, bytes(state.now.scenario)]]) });
  }
  async picture() { return (await this.ask({ ask: "picture", text: state.now.scenario })).content; }
  async exported(form) {
    return (await this.ask({ ask: "export", text: state.now.scenario, schedule: this.schedule.value || undefined, form })).content;
  }
  async save(name, what) {
    this.complain("");
    try {
      save(name, await what());
      this.copier.say(`${name} is saved.`);
    } catch (error) {
      this.complain(error.text || error.message);
    }
  }
  complain(text) {
    this.fault.textContent = text;
    this.fault.hidden = !text;
  }
}
