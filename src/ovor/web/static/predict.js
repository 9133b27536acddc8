// Images and drawings in, answers out.

import { getJson } from "./api.js";
import { announce, byId, counted, el, megabytes, percent, thumbnail } from "./dom.js";
import { Pad } from "./draw.js";
import { chooses, isPicture, takesDrops } from "./files.js";
import { current, onModel, seenVersion } from "./model.js";

const AT_ONCE = 3; // requests under way: one image each, so that a bad one spoils no other

/** The answer about one image; throws a sentence that says what is wrong with it. */
async function ask(file, options) {
  const limit = current()?.limits.image_bytes;
  if (file.size > limit) {
    const sizes = `${megabytes(file.size)}, and the server takes at most ${megabytes(limit)}`;
    throw new Error(`${file.name} has ${sizes}: make it smaller.`);
  }
  const form = new FormData();
  form.append("images", file, file.name);
  let answer;
  try {
    answer = await getJson("predict", { method: "POST", body: form, ...options });
  } catch (error) {
    if (error.images?.[0]?.error) error.message = error.images[0].error;
    throw error;
  }
  seenVersion(answer.version);
  const [found] = answer.predictions;
  if (found.error) throw new Error(found.error);
  return found;
}

const inWords = (found) =>
  found.unknown
    ? `unknown – like none of its classes; likeliest: ${found.classes[0].name} ${percent(found.classes[0].confidence)}`
    : `${found.answer}, ${percent(found.confidence)}`;

/** What there is to see of an answer: the answer itself, and a bar for each likely class. */
function shown(found, most) {
  const head = found.unknown
    ? el(
        "p",
        { class: "answer unknown" },
        el("strong", { text: "unknown" }),
        el("span", { text: inWords(found).slice("unknown".length) }),
      )
    : el(
        "p",
        { class: "answer" },
        el("strong", { text: found.answer }),
        el("span", { text: percent(found.confidence) }),
      );
  const bars = found.classes.slice(0, most).map(({ name, confidence }) =>
    el(
      "li",
      {},
      el("span", { class: "bar-name", text: name, title: name }),
      el("meter", { min: 0, max: 1, value: confidence, "aria-label": name }),
      el("span", { class: "bar-share", text: percent(confidence) }),
    ),
  );
  return [head, el("ul", { class: "bars", "aria-label": "Likeliest classes" }, ...bars)];
}

const busy = (seconds) => `The server is busy: trying again in ${seconds} s.`;

// --- images

const queue = [];
let running = 0;
let finished = 0;

export function addImages(files) {
  const rows = files.map((file) => {
    const said = el("div", { class: "said" }, el("p", { class: "hint", text: "Waiting…" }));
    const body = el("div", {}, el("p", { class: "file", text: file.name, title: file.name }), said);
    const row = el("li", { class: "result" }, thumbnail(file), body);
    queue.push({ file, row, said });
    return row;
  });
  byId("results").prepend(...rows);
  byId("results-head").hidden = !byId("results").children.length;
  while (running < AT_ONCE && queue.length) {
    running += 1;
    work();
  }
}

async function work() {
  for (let next = queue.shift(); next; next = queue.shift()) await answerRow(next);
  running -= 1;
  if (running) return;
  announce(`${counted(finished, "image")} answered. ${lastWords}`);
  finished = 0;
}

let lastWords = "";

async function answerRow({ file, row, said }) {
  const say = (text) => said.replaceChildren(el("p", { class: "hint", text }));
  say("Looking…");
  try {
    const found = await ask(file, { waiting: (seconds) => say(busy(seconds)) });
    said.replaceChildren(...shown(found, 3));
    row.classList.toggle("is-unknown", found.unknown);
    lastWords = `${file.name}: ${inWords(found)}.`;
  } catch (error) {
    said.replaceChildren(el("p", { class: "error", text: error.message }));
    row.classList.add("is-error");
    lastWords = error.message;
  }
  finished += 1;
}

function clearResults() {
  queue.length = 0;
  byId("results").replaceChildren();
  byId("results-head").hidden = true;
  byId("predict-choose").focus();
}

// --- a drawing

let pad;
let asked = null; // what stops the request about the drawing as it was before
let later = 0;

function drawn() {
  asked?.abort();
  clearTimeout(later);
  byId("undo").disabled = byId("clear").disabled = pad.empty;
  byId("seen").hidden = pad.empty;
  if (pad.empty) {
    const hint = "The answer comes with each line that you draw.";
    byId("sketch-answer").replaceChildren(el("p", { class: "hint", text: hint }));
    return;
  }
  pad.paintSmall(byId("seen-canvas"));
  later = setTimeout(askDrawing, 120);
}

async function askDrawing() {
  asked = new AbortController();
  const { signal } = asked;
  const place = byId("sketch-answer");
  const waiting = (seconds) => {
    if (!signal.aborted) place.replaceChildren(el("p", { class: "hint", text: busy(seconds) }));
  };
  try {
    const found = await ask(await pad.file("drawing.png"), { signal, waiting });
    if (signal.aborted) return;
    place.replaceChildren(...shown(found, 5));
    announce(`The drawing: ${inWords(found)}.`);
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return;
    place.replaceChildren(el("p", { class: "error", text: error.message }));
  }
}

export function startPredict() {
  // A folder may hold anything; what was dropped or chosen by itself is sent, whatever it is.
  const take = (found) =>
    addImages(found.filter(({ file, path }) => !path || isPicture(file)).map(({ file }) => file));
  takesDrops(byId("predict"), take);
  chooses(byId("predict-choose"), byId("predict-files"), (input) => addImages([...input.files]));
  byId("results-clear").addEventListener("click", clearResults);
  pad = new Pad(byId("pad"), drawn);
  byId("undo").addEventListener("click", () => pad.undo());
  byId("clear").addEventListener("click", () => pad.clear());
  drawn();
  let version;
  onModel((model) => {
    byId("empty").hidden = model.tasks.length > 0;
    byId("sketch").hidden = !model.drawing || !model.tasks.length;
    const another = version !== undefined && version !== model.version;
    version = model.version;
    if (another && !pad.empty) drawn(); // the new model may know what it is
  });
}
