// The classes of a lesson: a card for each, with its name and its images.

import { teachingPanel } from "./camera.js";
import { tell } from "./changes.js";
import { byId, el, thumbnail } from "./dom.js";
import { Pad } from "./draw.js";
import { chooses, isPicture, takesDrops } from "./files.js";
import { asFile, KINDS, unpacked } from "./text.js";
import { lines } from "./text_lines.js";
import { items } from "./words.js";

let classes = [];
let changed = () => {};
let touched = null; // the class that a pasted image goes to
let numbers = 0;

export const onChange = (listener) => {
  changed = listener;
};
export const all = () => classes;
export const nameOf = (own) => own.field.value.trim().normalize("NFC");
export const isEmpty = (own) => !nameOf(own) && !own.images.length;
export const filled = () => classes.filter((own) => !isEmpty(own));
export const target = () => touched ?? classes.find(nameOf) ?? classes[0];

export function clearClasses() {
  for (const own of classes) own.camera?.stop();
  classes = [];
  touched = null;
  byId("classes").replaceChildren();
  addClass();
  addClass();
}

export function addClass() {
  numbers += 1;
  const id = `class-${numbers}`;
  const button = (text, more = {}) => el("button", { type: "button", text, ...more });
  const parts = {
    field: el("input", { type: "text", id, autocomplete: "off", maxlength: 200, list: "known-classes", "aria-describedby": `${id}-hint` }),
    hint: el("p", { class: "class-hint", id: `${id}-hint` }),
    thumbs: el("ul", { class: "thumbs", "aria-label": "Images" }),
    count: el("span", { class: "hint" }),
    easel: el("div", { class: "easel", hidden: true }),
  };
  const files = el("input", { type: "file", multiple: true, accept: "image/*", tabindex: -1, "aria-label": "Images of the class" });
  const choose = button("Add images", { class: "for-images" });
  const add = button("Add files", { class: "for-texts" });
  const draw = button("Draw", { class: "for-drawing", "aria-expanded": "false" });
  const film = button("Camera", { class: "for-photos", "aria-expanded": "false" });
  const remove = button("Remove class", { class: "quiet" });
  const typed = lines(id, (texts) => retype(own, texts));
  const card = el(
    "li",
    { class: "class" },
    el("div", { class: "line" }, el("label", { for: id, text: "Class name" }), remove),
    parts.field,
    parts.hint,
    typed.part,
    parts.thumbs,
    parts.easel,
    el("div", { class: "buttons" }, choose, add, draw, film, files, parts.count),
  );
  const own = { ...parts, card, typed: typed.box, images: [] };
  for (const event of ["focusin", "pointerdown"]) {
    card.addEventListener(event, () => {
      touched = own;
    });
  }
  own.field.addEventListener("input", () => changed());
  remove.addEventListener("click", () => removeClass(own));
  draw.addEventListener("click", () => toggleEasel(own, draw));
  film.addEventListener("click", () => toggleCamera(own, film));
  add.addEventListener("click", () => {
    files.accept = KINDS;
    files.click();
  });
  chooses(choose, files, (input) => addFiles(own, [...input.files]));
  takesDrops(card, (found) =>
    addFiles(own, found.filter(({ file, path }) => !path || isPicture(file)).map(({ file }) => file)),
  );
  classes.push(own);
  byId("classes").append(card);
  changed();
  return own;
}

function removeClass(own) {
  const at = classes.indexOf(own);
  classes.splice(at, 1);
  own.camera?.stop();
  own.card.remove();
  if (touched === own) touched = null;
  if (!classes.length) addClass();
  classes[Math.min(at, classes.length - 1)].field.focus();
  changed();
}

/** Add files, and the rows of tables, to a class. */
async function addFiles(own, files) {
  try {
    addImages(own, await unpacked(files));
  } catch (error) {
    tell(error.message, true);
  }
}

/** Put texts that stand in the box of a class in the place of those that stood there before. */
function retype(own, texts) {
  for (const image of own.images) if (image.line) image.item.remove(); // which was shown if it was bad
  const files = own.images.filter((image) => !image.line);
  own.images = [...files, ...texts.map((line) => ({ ...imageOf(own, asFile(line)), line }))];
  changed();
}

function imageOf(own, file) {
  const label = `Remove ${file.name}`;
  const said = el("span", { class: "thumb-error" });
  const button = el("button", { type: "button", class: "remove", "aria-label": label, title: label });
  const item = el("li", {}, thumbnail(file), button, said);
  button.addEventListener("click", () => {
    const next = item.nextElementSibling ?? item.previousElementSibling;
    removeImages(own.images.filter((image) => image.item === item));
    (next?.querySelector("button") ?? own.field).focus();
  });
  return { file, error: null, said, item };
}

export function addImages(own, files) {
  for (const file of files) {
    const image = imageOf(own, file);
    own.images.push(image);
    own.thumbs.append(image.item);
  }
  changed();
}

/** Make one card of cards that have the same name: the first, with the images of all. */
export function joinClasses() {
  for (const own of [...classes]) {
    const first = classes.find((other) => nameOf(other) && nameOf(other) === nameOf(own));
    if (!first || first === own) continue;
    const typed = [first, own].flatMap(({ images }) => images.flatMap(({ line }) => line ?? []));
    removeClass(own);
    addImages(first, own.images.filter(({ line }) => !line).map(({ file }) => file));
    if (typed.length) retype(first, typed);
    first.typed.value = typed.join("\n");
  }
}

export function removeImages(gone) {
  for (const own of classes) {
    own.images = own.images.filter((image) => !gone.includes(image));
    if (gone.some((image) => image.line)) own.typed.value = own.images.flatMap(({ line }) => line ?? []).join("\n");
  }
  for (const image of gone) image.item.remove();
  changed();
}

/** Show at its picture what is wrong with an image. */
export function blame(image, error) {
  image.error = error;
  image.item.classList.add("bad");
  image.said.textContent = error;
  if (!image.item.isConnected) classes.find((own) => own.images.includes(image))?.thumbs.append(image.item); // typed
}

export const showCount = (own) => {
  own.count.textContent = own.images.length ? items(own.images.length) : "";
};

function toggleCamera(own, button) {
  if (!own.camera) {
    const { panel, camera } = teachingPanel((file) => addImages(own, [file]));
    Object.assign(own, { panel, camera });
    own.easel.before(panel);
    panel.hidden = true;
  }
  own.panel.hidden = !own.panel.hidden;
  button.setAttribute("aria-expanded", String(!own.panel.hidden));
  if (own.panel.hidden) own.camera.stop();
  else own.camera.start();
}

function toggleEasel(own, button) {
  const { easel } = own;
  easel.hidden = !easel.hidden;
  button.setAttribute("aria-expanded", String(!easel.hidden));
  if (easel.firstChild) return;
  const label = "Draw an example here; without a pointer, add image files";
  const canvas = el("canvas", { class: "pad", role: "img", "aria-label": label });
  const keep = el("button", { type: "button", text: "Keep this drawing", disabled: true });
  const undo = el("button", { type: "button", text: "Undo", disabled: true });
  const pad = new Pad(canvas, () => {
    keep.disabled = undo.disabled = pad.empty;
  });
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
