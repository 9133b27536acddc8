// The form of a lesson: what must be mended before it is learned, and learning it.

import { backend } from "./backend.js";
import { tell } from "./changes.js";
import { addClass, addImages, all, blame, clearClasses, filled, isEmpty, joinClasses, nameOf, onChange, removeImages, showCount, target } from "./classes.js";
import { byId, counted, el, megabytes } from "./dom.js";
import { byClass, chooses, chosenFolder, takesDrops } from "./files.js";
import { follow, isFollowing, showUpload } from "./lesson.js";
import { current, known, onModel, refresh, taker } from "./model.js";
import { withNames } from "./question.js";
import { byLabel, isTable } from "./text.js";
import { items, many, one, written } from "./words.js";

// --- what is wrong, and what is worth knowing

function wrongName(own) {
  const name = nameOf(own);
  if (!name) return null;
  if (name.toLowerCase() === "unknown") return "“unknown” is what the model says about strangers: choose another name.";
  if (known().includes(name) && !current().exact) return `“${name}” is known already, and a class is learned once: choose another name.`;
  const twice = all().some((other) => other !== own && nameOf(other) === name);
  return twice ? `There are two classes called “${name}”: rename one.` : null;
}

function wrongImages(own) {
  const bad = own.images.filter((image) => image.error).length;
  return bad ? `${items(bad)} cannot be used.` : null;
}

/** What is merely not done yet, and no mistake before Learn is pressed. */
function unfinished(own) {
  if (isEmpty(own)) return null;
  if (!nameOf(own)) return "Give this class a name.";
  return own.images.length ? null : `Give “${nameOf(own)}” some ${many()}.`;
}

function advice(own) {
  if (!own.images.length) return written() ? "Type them, drop files or tables here, or add files." : "Drop or paste images here, or add files.";
  if (known().includes(nameOf(own))) return `The model knows “${nameOf(own)}”: it learns these ${many()} in addition.`;
  return own.images.length === 1 ? `One ${one()} only: it can be learned, but not well.` : "";
}

function wrongAtAll() {
  if (!current()) return ["Nothing is known of the model yet: try again in a moment."];
  const { limits } = current();
  const images = filled().flatMap((own) => own.images);
  const bytes = images.reduce((sum, { file }) => sum + file.size, 0);
  const found = [];
  if (!filled().length) found.push(`Name a class and give it some ${many()} first.`);
  if (images.length > limits.images_per_lesson) {
    found.push(`There are ${images.length} ${many()}, and ${taker} takes at most ${limits.images_per_lesson} in a lesson: remove some.`);
  }
  if (bytes > limits.request_bytes) {
    found.push(`The ${many()} have ${megabytes(bytes)}, and ${taker} takes at most ${megabytes(limits.request_bytes)} at once: remove some, or make them smaller.`);
  }
  return found;
}

const problems = () => [
  ...filled().flatMap((own) => [wrongName(own), unfinished(own), wrongImages(own)].filter(Boolean)),
  ...wrongAtAll(),
];

/** Everything that depends on what was typed or added. */
function update() {
  const limit = current()?.limits.image_bytes ?? Infinity;
  for (const own of all()) {
    for (const image of own.images.filter(({ file }) => file.size > limit)) {
      blame(image, `${image.file.name} has ${megabytes(image.file.size)}, and ${taker} takes at most ${megabytes(limit)}: make it smaller.`);
    }
    const name = wrongName(own) ?? (own.pressed ? unfinished(own) : null);
    const wrong = name ?? wrongImages(own);
    own.hint.textContent = wrong ?? advice(own);
    own.hint.classList.toggle("error", Boolean(wrong));
    own.field.setAttribute("aria-invalid", String(Boolean(name)));
    showCount(own);
  }
  byId("tally").textContent = tally();
}

function tally() {
  const images = filled().reduce((sum, own) => sum + own.images.length, 0);
  if (!images) return "";
  const sum = `${counted(filled().length, "class", "classes")}, ${items(images)}`;
  return filled().length > 1 ? sum : `${sum}. One class alone can be learned; two or more also teach what tells them apart.`;
}

function showProblems(sentences) {
  const bad = all().flatMap((own) => own.images.filter((image) => image.error));
  const remedy = el("button", { type: "button", text: `Remove ${counted(bad.length, `bad ${one()}`)} and try again` });
  remedy.addEventListener("click", () => {
    removeImages(bad);
    byId("form").requestSubmit();
  });
  byId("problems").replaceChildren(
    ...sentences.map((text) => el("li", { text })),
    ...(bad.length ? [el("li", { class: "remedy" }, remedy)] : []),
  );
  byId("problems").hidden = false;
  byId("problems").focus();
}

// --- learning

let early = false; // Learn was pressed before the page had heard of its model

async function learn(event) {
  event.preventDefault();
  if (early) return;
  if (!current()) {
    early = true;
    await refresh();
    early = false;
  }
  for (const own of all()) own.pressed = true;
  update();
  byId("problems").hidden = true;
  byId("problems").classList.remove("stays");
  if (problems().length) {
    showProblems(problems());
    return;
  }
  let images = []; // in the order in which they are sent
  try {
    const begun = await withNames((meant, yes) => {
      for (const own of filled()) own.field.value = meant.get(nameOf(own)) ?? nameOf(own);
      joinClasses(); // two that are meant to be one
      images = filled().flatMap((own) => own.images);
      return send(yes);
    });
    if (!begun) {
      showUpload(null);
      return;
    }
    const last = await follow(begun.id);
    if (last.state === "done") clearClasses();
    else if (last.images.length) {
      blameAll(images, last.images);
      showProblems([last.error]);
    }
  } catch (error) {
    showUpload(null);
    if (error.name === "AbortError") return;
    if (error.status === 409) await refresh(); // of someone else: its progress is shown
    blameAll(images, error.images ?? []);
    const busy = error.status === 409 ? " Yours was not taken: press Learn again when it has ended." : "";
    showProblems([(error.images ? error.message.replace(/ Or send on_error=skip.*$/, "") : error.message) + busy]);
    byId("problems").classList.toggle("stays", Boolean(busy)); // also when the other one ends
  }
}

function send(yes) {
  const counts = filled().map((own) => ({ name: nameOf(own), images: own.images.length }));
  const classes = filled().map((own) => ({ name: nameOf(own), files: own.images.map(({ file }) => file) }));
  const stop = new AbortController();
  const sent = (share) => showUpload(share, counts, () => stop.abort());
  sent(0);
  const keep = byId("keep").checked && !current().exact;
  return backend.teach(classes, { yes, keep, sent, signal: stop.signal });
}

function blameAll(images, list) {
  for (const { index, error } of list) if (images[index]) blame(images[index], error);
  update();
}

// --- many at once

/** What was dropped on the form, or chosen for it: folders, and tables if the model reads what is in them. */
async function takeMany(files) {
  const tables = files.filter(({ file }) => written() && isTable(file));
  for (const { file } of tables) {
    try {
      fill(await byLabel(file));
    } catch (error) {
      tell(error.message, true);
    }
  }
  const rest = files.filter((found) => !tables.includes(found));
  if (rest.length || !tables.length) takeFolder(rest);
}

function fill(classes) {
  for (const [name, images] of classes) {
    const own = all().find((other) => nameOf(other) === name) ?? all().find(isEmpty) ?? addClass();
    own.field.value = name;
    addImages(own, images);
  }
}

function takeFolder(files) {
  const { classes, left } = byClass(files);
  fill(classes);
  const loose = left.map((file) => file.name).filter((name) => !name.startsWith("."));
  const more = loose.length > 5 ? ` and ${loose.length - 5} more` : "";
  byId("folder-note").hidden = classes.size > 0 && !loose.length;
  byId("folder-note").textContent = classes.size
    ? `Left out, as they are no ${many()} in a sub-folder: ${loose.slice(0, 5).join(", ")}${more}.`
    : `Drop single ${many()} onto a class; here a folder with one sub-folder per class is taken${written() ? ", or a table of texts and labels" : ""}.`;
}

export const pasteImages = (files) => addImages(target(), files);

/** Let an image wait in the form under a name: for models that learn whole lessons only. */
export function putAside(file, name) {
  const own = all().find((other) => nameOf(other) === name) ?? all().find(isEmpty) ?? addClass();
  own.field.value = name;
  addImages(own, [file]);
  location.hash = "teach";
}

export function startTeach() {
  onChange(() => {
    byId("problems").hidden = true;
    update();
  });
  clearClasses();
  byId("form").addEventListener("submit", learn);
  byId("class-add").addEventListener("click", () => addClass().field.focus());
  chooses(byId("folder-choose"), byId("folder"), (input) => takeFolder(chosenFolder(input)));
  chooses(byId("table-choose"), byId("table"), (input) => takeMany([...input.files].map((file) => ({ file, path: "" }))));
  takesDrops(byId("form"), takeMany);
  window.addEventListener("beforeunload", (event) => {
    const sent = isFollowing() && !backend.onDevice; // then the server has them
    if (!sent && all().some((own) => own.images.length)) event.preventDefault();
  });
  onModel((model) => {
    const empty = !model.lessons.length;
    document.body.classList.toggle("drawing", model.drawing);
    byId("teach-title").textContent = empty ? "Teach it its first classes" : "Teach it";
    byId("older-advice").hidden = empty;
    byId("more-advice").hidden = !model.exact || empty;
    byId("keep-choice").hidden = model.exact; // such a model sets no image aside
    byId("images-advice").textContent = model.drawing
      ? "Ten drawings a class are a start, white on black; you may draw them here."
      : `Ten ${written() ? many() : "photographs"} a class are a start.`;
    if (model.learning && model.can_teach && !isFollowing()) follow(model.learning);
    update();
  });
}
