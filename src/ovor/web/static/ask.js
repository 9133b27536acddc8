// Images and drawings in, answers out.

import { Answer, inWords, predict } from "./answer.js";
import { startAsking } from "./camera.js";
import { tell } from "./changes.js";
import { announce, byId, chip, el, thumbnail } from "./dom.js";
import { Pad } from "./draw.js";
import { chooses, chosenFolder, isPicture, takesDrops } from "./files.js";
import { lookAgain } from "./inbox.js";
import { classesOf, onModel } from "./model.js";
import { putAside } from "./teach.js";
import { KINDS, startTexts, unpacked } from "./text.js";
import { items, written } from "./words.js";

const AT_ONCE = 3; // requests under way: one image each, so that a bad one spoils no other
const LOOKING = "Looking…";
const busy = (seconds) => `The server is busy: trying again in ${seconds} s.`;

// --- images

const queue = [];
let running = 0;
let finished = 0;
let lastWords = "";

export async function addImages(given) {
  let files = [];
  try {
    files = await unpacked(given);
  } catch (error) {
    tell(error.message, true); // a table that cannot be read
  }
  const rows = files.map((file) => {
    const said = el("div", { class: "said", "aria-busy": "true" }, el("p", { class: "looking", text: "Waiting…" }));
    const body = el("div", {}, el("p", { class: "file", text: file.name, title: file.name }), said);
    const row = el("li", { class: "result" }, thumbnail(file), body);
    queue.push({ file, row, answer: new Answer(said, { most: 3, later: putAside }) });
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
  announce(`${items(finished)} answered. ${lastWords}`);
  finished = 0;
  lookAgain();
}

async function answerRow({ file, row, answer }) {
  answer.pending(LOOKING);
  try {
    const found = await predict(file, { waiting: (seconds) => answer.pending(busy(seconds)) });
    answer.show(file, found.row, found.version);
    lastWords = `${file.name}: ${inWords(found.row)}.`;
  } catch (error) {
    answer.fail(error.message);
    row.classList.add("is-error");
    lastWords = error.message;
  }
  finished += 1;
}

function clearResults() {
  queue.length = 0;
  byId("results").replaceChildren();
  byId("results-head").hidden = true;
  byId("ask-choose").focus();
}

// --- a drawing

let pad;
let drawing; // its answer
let asked = null; // what stops the request about the drawing as it was before
let later = 0;

function drawn() {
  asked?.abort();
  clearTimeout(later);
  drawing.file = null;
  byId("undo").disabled = byId("clear").disabled = pad.empty;
  byId("seen").hidden = pad.empty;
  byId("draw-here").hidden = !pad.empty;
  if (pad.empty) {
    byId("sketch").classList.remove("is-unknown");
    drawing.say(el("p", { class: "hint", text: "The answer comes with each line that you draw." }));
    return;
  }
  pad.paintSmall(byId("seen-canvas"));
  drawing.pending(LOOKING);
  later = setTimeout(askDrawing, 120);
}

async function askDrawing() {
  asked = new AbortController();
  const { signal } = asked;
  const waiting = (seconds) => {
    if (!signal.aborted) drawing.pending(busy(seconds));
  };
  try {
    const file = await pad.file("drawing.png");
    const { row, version } = await predict(file, { signal, waiting, keep: false }); // it is half done, mostly
    if (signal.aborted) return;
    drawing.show(file, row, version);
    announce(`The drawing: ${inWords(row)}.`);
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return;
    drawing.fail(error.message);
  }
}

// --- the model

function showKnown(model) {
  const classes = classesOf(model);
  const drawings = model.drawing;
  byId("empty").hidden = classes.length > 0;
  byId("empty-more").hidden = !model.can_teach;
  byId("sketch").hidden = !drawings || !classes.length;
  byId("images-card").hidden = !classes.length;
  byId("camera-card").hidden = drawings || written() || !classes.length; // a camera makes no drawings of 28 pixels
  byId("knows").hidden = !classes.length;
  byId("images-title").textContent = drawings ? "Or ask about image files" : "Ask about photographs";
  byId("images-words").textContent = drawings ? "Drop images of drawings here, paste them, or" : "Drop photographs here, paste them, or";
  byId("ask-choose").textContent = drawings ? "Choose images" : "Choose photographs";
  if (written()) {
    byId("images-title").textContent = "Or ask about files";
    byId("images-words").textContent = "Drop text files (.txt) or tables with a column of texts (.csv, .tsv, .jsonl) here, or";
    byId("ask-choose").textContent = "Choose files";
    byId("ask-files").accept = KINDS;
  }
  byId("known").replaceChildren(...classes.map((one) => chip(one)));
  byId("known-classes").replaceChildren(...classes.map(({ name }) => el("option", { value: name })));
}

export function startAsk() {
  // A folder may hold anything; what was dropped or chosen by itself is sent, whatever it is.
  const take = (found) =>
    addImages(found.filter(({ file, path }) => !path || isPicture(file)).map(({ file }) => file));
  takesDrops(byId("ask"), take);
  chooses(byId("ask-choose"), byId("ask-files"), (input) => addImages([...input.files]));
  chooses(byId("ask-folder-choose"), byId("ask-folder"), (input) => take(chosenFolder(input)));
  byId("results-clear").addEventListener("click", clearResults);
  startAsking(byId("camera"), (file) => addImages([file]));
  startTexts({ later: putAside });
  drawing = new Answer(byId("sketch-answer"), { most: 3, later: putAside });
  pad = new Pad(byId("pad"), drawn);
  byId("undo").addEventListener("click", () => pad.undo());
  byId("clear").addEventListener("click", () => pad.clear());
  drawn();
  onModel((model) => {
    showKnown(model);
    // The new model may know what it is; after a correction the answer is of that model already.
    if (drawing.file && !drawing.learning && drawing.version !== model.version) drawn();
  });
}
