// The form of a new task: classes, their images, and what must be mended before it is learned.

import { upload } from "./api.js";
import { byId, counted, el, megabytes, thumbnail } from "./dom.js";
import { Pad } from "./draw.js";
import { byClass, chooses, chosenFolder, isPicture, takesDrops } from "./files.js";
import { follow, isFollowing, showUpload } from "./lesson.js";
import { current, known, onModel, refresh } from "./model.js";

const classes = []; // {card, field, hint, images: [{file, item, error}], ...}
let touched = null; // the class that a pasted image goes to
let numbers = 0;

// --- a class

function addClass(name = "") {
  numbers += 1;
  const id = `class-${numbers}`;
  const field = el("input", { type: "text", id, value: name, autocomplete: "off", "aria-describedby": `${id}-hint`, maxlength: 200 });
  const hint = el("p", { class: "class-hint", id: `${id}-hint` });
  const thumbs = el("ul", { class: "thumbs", "aria-label": "Images" });
  const count = el("span", { class: "hint" });
  const files = el("input", { type: "file", multiple: true, accept: "image/*", tabindex: -1, "aria-label": "Images of the class" });
  const choose = el("button", { type: "button", text: "Add images" });
  const draw = el("button", { type: "button", class: "for-drawing", text: "Draw", "aria-expanded": "false" });
  const drop = el("button", { type: "button", class: "quiet", text: "Remove class" });
  const corner = el("div", { class: "line" }, el("label", { for: id, text: "Class name" }), drop);
  const easel = el("div", { class: "easel", hidden: true });
  const card = el("li", { class: "class" }, corner, field, hint, thumbs, easel,
    el("div", { class: "buttons" }, choose, draw, files, count));
  const own = { card, field, hint, thumbs, count, images: [] };

  field.addEventListener("input", update);
  card.addEventListener("focusin", () => { touched = own; });
  card.addEventListener("pointerdown", () => { touched = own; });
  chooses(choose, files, (input) => addImages(own, [...input.files]));
  drop.addEventListener("click", () => removeClass(own));
  draw.addEventListener("click", () => toggleEasel(own, easel, draw));
  takesDrops(card, (found) =>
    addImages(own, found.filter(({ file, path }) => !path || isPicture(file)).map(({ file }) => file)));
  classes.push(own);
  byId("classes").append(card);
  update();
  return own;
}

function removeClass(own) {
  const at = classes.indexOf(own);
  classes.splice(at, 1);
  own.card.remove();
  if (touched === own) touched = null;
  if (!classes.length) addClass();
  classes[Math.min(at, classes.length - 1)].field.focus();
  update();
}

function addImages(own, files) {
  for (const file of files) {
    const image = { file, error: null };
    const label = `Remove ${file.name}`;
    const remove = el("button", { type: "button", class: "remove", "aria-label": label, title: label,
      onclick: () => removeImage(own, image) });
    image.said = el("span", { class: "thumb-error" });
    image.item = el("li", { title: file.name }, thumbnail(file), remove, image.said);
    own.images.push(image);
    own.thumbs.append(image.item);
  }
  update();
}

function removeImage(own, image) {
  const next = image.item.nextElementSibling ?? image.item.previousElementSibling;
  own.images.splice(own.images.indexOf(image), 1);
  image.item.remove();
  (next?.querySelector("button") ?? own.field).focus();
  update();
}

function blame(image, error) {
  image.error = error;
  image.item.classList.toggle("bad", Boolean(error));
  image.said.textContent = error ?? "";
}

function toggleEasel(own, easel, button) {
  easel.hidden = !easel.hidden;
  button.setAttribute("aria-expanded", String(!easel.hidden));
  if (easel.firstChild) return;
  const canvas = el("canvas", { class: "pad", role: "img", "aria-label": "Draw an example here; without a pointer, add image files" });
  const keep = el("button", { type: "button", text: "Keep this drawing", disabled: true });
  const undo = el("button", { type: "button", text: "Undo", disabled: true });
  const pad = new Pad(canvas, () => { keep.disabled = undo.disabled = pad.empty; });
  let drawings = 0;
  keep.addEventListener("click", async () => {
    drawings += 1;
    const file = await pad.file(`drawing-${drawings}.png`);
    pad.clear();
    addImages(own, [file]);
  });
  undo.addEventListener("click", () => pad.undo());
  easel.append(canvas, el("div", { class: "buttons" }, keep, undo));
}

// --- what is wrong, and what is worth knowing

const nameOf = (own) => own.field.value.trim().normalize("NFC");
const isEmpty = (own) => !nameOf(own) && !own.images.length;
const filled = () => classes.filter((own) => !isEmpty(own));

/** What stops the lesson, about one class. */
function problem(own) {
  const name = nameOf(own);
  if (isEmpty(own)) return null;
  if (!name) return "Give this class a name.";
  if (name.toLowerCase() === "unknown") return "“unknown” is what the model says about strangers: choose another name.";
  if (known().includes(name)) return `“${name}” is known already, and a class is learned once: choose another name.`;
  if (classes.some((other) => other !== own && nameOf(other) === name)) return `There are two classes called “${name}”: rename one.`;
  if (!own.images.length) return "Add some images.";
  const bad = own.images.filter((image) => image.error).length;
  return bad ? `${counted(bad, "image")} cannot be used: see above.` : null;
}

function allProblems() {
  const { limits } = current();
  const images = filled().flatMap((own) => own.images);
  const found = filled().map(problem).filter(Boolean);
  const bytes = images.reduce((sum, { file }) => sum + file.size, 0);
  if (!filled().length) found.push("Name a class and add some images first.");
  if (images.length > limits.images_per_task) found.push(`There are ${images.length} images, and the server takes at most ${limits.images_per_task} in a task: remove some.`);
  if (bytes > limits.request_bytes) found.push(`The images have ${megabytes(bytes)}, and the server takes at most ${megabytes(limits.request_bytes)} at once: remove some, or make them smaller.`);
  return found;
}

function advice(own) {
  if (nameOf(own) && own.images.length === 1) return "One image only: it can be learned, but not well.";
  return "";
}

/** Everything that depends on what was typed or added. */
function update() {
  const limit = current()?.limits.image_bytes ?? Infinity;
  for (const own of classes) {
    for (const image of own.images) {
      if (image.file.size > limit) blame(image, `${megabytes(image.file.size)}, more than the ${megabytes(limit)} that the server takes.`);
    }
    // What is merely not done yet is no mistake before Learn is pressed.
    const wrong = problem(own);
    const early = wrong && (!nameOf(own) || !own.images.length) && !own.pressed;
    own.hint.textContent = (early ? null : wrong) ?? advice(own);
    own.hint.classList.toggle("error", Boolean(wrong) && !early);
    own.field.setAttribute("aria-invalid", String(Boolean(wrong) && !early));
    own.count.textContent = own.images.length ? counted(own.images.length, "image") : "";
  }
  const images = filled().reduce((sum, own) => sum + own.images.length, 0);
  const named = filled().length;
  byId("tally").textContent = images ? `${counted(named, "class", "classes")}, ${counted(images, "image")}${named === 1 ? ". One class alone can be learned, but two or more teach better what tells them apart." : ""}` : "";
  byId("problems").hidden = true;
}

function showProblems(sentences, ...more) {
  byId("problems").replaceChildren(...sentences.map((text) => el("li", { text })), ...more);
  byId("problems").hidden = !sentences.length;
  if (sentences.length) byId("problems").focus();
}

// --- learning

async function learn(event) {
  event.preventDefault();
  for (const own of classes) own.pressed = true;
  update();
  const problems = allProblems();
  if (problems.length) {
    showProblems(problems, ...remedies());
    return;
  }
  const images = filled().flatMap((own) => own.images.map((image) => ({ ...image, image, name: nameOf(own) })));
  const form = new FormData();
  for (const { file, name } of images) {
    form.append("images", file, file.name);
    form.append("labels", name);
  }
  form.append("keep_set_aside", String(byId("keep").checked));
  const counts = filled().map((own) => ({ name: nameOf(own), images: own.images.length }));
  const stop = new AbortController();
  const sent = (share) => showUpload(share, counts, () => stop.abort());
  sent(0);
  try {
    const { id } = await upload("tasks", form, sent, stop.signal);
    const last = await follow(id);
    if (last?.state === "done") reset();
    else blameAll(images, last?.images ?? []);
  } catch (error) {
    showUpload(null);
    if (error.name === "AbortError") return;
    blameAll(images, error.images ?? []);
    showProblems([error.message], ...remedies());
    if (error.status === 409) reattach();
  }
}

function blameAll(images, list) {
  for (const { index, error } of list) if (images[index]) blame(images[index].image, error);
  update();
}

function remedies() {
  const bad = classes.flatMap((own) => own.images.filter((image) => image.error).map((image) => [own, image]));
  if (!bad.length) return [];
  const remove = el("button", { type: "button", text: `Remove ${counted(bad.length, "bad image")} and try again`, onclick: () => {
    for (const [own, image] of bad) removeImage(own, image);
    byId("form").requestSubmit();
  } });
  return [el("li", { class: "remedy" }, remove)];
}

function reset() {
  classes.splice(0);
  byId("classes").replaceChildren();
  byId("folder-note").hidden = true;
  touched = null;
  addClass();
  addClass();
}

/** A lesson of someone else, or of this page before it was reloaded. */
async function reattach() {
  const { learning } = await refresh();
  if (learning && !isFollowing()) follow(learning);
}

// --- many at once

function takeFolder(files) {
  const { classes: found, left } = byClass(files);
  for (const [name, images] of found) {
    const own = classes.find((one) => nameOf(one) === name) ?? classes.find(isEmpty) ?? addClass();
    own.field.value = name;
    addImages(own, images);
  }
  const note = byId("folder-note");
  const loose = left.filter((file) => !file.name.startsWith("."));
  note.hidden = found.size > 0 && !loose.length;
  note.textContent = found.size
    ? `Left out, as they are no images in a sub-folder: ${loose.slice(0, 5).map((file) => file.name).join(", ")}${loose.length > 5 ? ` and ${loose.length - 5} more` : ""}.`
    : "Drop single images onto a class; here a folder with one sub-folder per class is taken.";
}

export function pasteImages(files) {
  const own = touched ?? classes.find((one) => nameOf(one)) ?? classes[0];
  addImages(own, files);
}

export function startTeach() {
  addClass();
  addClass();
  byId("form").addEventListener("submit", learn);
  byId("class-add").addEventListener("click", () => addClass().field.focus());
  chooses(byId("folder-choose"), byId("folder"), (input) => takeFolder(chosenFolder(input)));
  takesDrops(byId("teach"), takeFolder);
  window.addEventListener("beforeunload", (event) => {
    if (!isFollowing() && classes.some((own) => own.images.length)) event.preventDefault();
  });
  onModel((model) => {
    document.body.classList.toggle("drawing", model.drawing);
    byId("images-advice").textContent = model.drawing ? "This model knows drawings, white on black: ten a class are a start, and you may draw them here." : "Ten a class are a start.";
    if (model.learning && !isFollowing()) follow(model.learning);
    update();
  });
}
