// Files out of drops, pastes and folders.

import { written } from "./words.js";

const WRITING = /\.(txt|text)$/i;
const PICTURE = /\.(jpe?g|png|webp|gif|bmp|tiff?)$/i;

/** The files of a drop as {file, path}, folders opened; path is empty for a file on its own. */
export async function dropped(transfer) {
  // Entries are only there until the event ends, so they are taken before anything is awaited.
  const items = [...transfer.items].filter((item) => item.kind === "file");
  const found = items.map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
  const parts = await Promise.all(found.filter(Boolean).map((one) => opened(one, "")));
  return parts.flat();
}

async function opened(entry, path) {
  if (entry instanceof File) return [{ file: entry, path }];
  if (entry.isFile) {
    const file = await new Promise((resolve) => entry.file(resolve, () => resolve(null)));
    return file ? [{ file, path }] : [];
  }
  const inside = [];
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((resolve) => reader.readEntries(resolve, () => resolve([])));
    if (!some.length) break; // Chromium gives a hundred at a time
    inside.push(...some);
  }
  const under = path ? `${path}/${entry.name}` : entry.name;
  const parts = await Promise.all(inside.map((one) => opened(one, under)));
  return parts.flat();
}

/** The files of an <input webkitdirectory>, in the same form. */
export const chosenFolder = (input) =>
  [...input.files].map((file) => ({
    file,
    path: file.webkitRelativePath.split("/").slice(0, -1).join("/"),
  }));

/** Whether a file in a folder is worth sending; hidden ones and other kinds are not. */
export const isPicture = (file) => !file.name.startsWith(".") && (written() ? WRITING : PICTURE).test(file.name);

/**
 * Classes from files in folders: one for each sub-folder of a folder that has some, else one for
 * the folder itself. Files at any depth belong to their class. What fits nowhere is `left`.
 */
export function byClass(files) {
  const classes = new Map();
  const left = [];
  const order = (a, b) => a.localeCompare(b, "en", { numeric: true }); // a drop has none
  files = [...files].sort((a, b) => order(a.path, b.path) || order(a.file.name, b.file.name));
  const parents = new Set(files.map(({ path }) => path.split("/")).filter((p) => p[1]).map((p) => p[0]));
  for (const { file, path } of files) {
    const [top, below] = path.split("/");
    const name = parents.has(top) ? below : top;
    if (!name || name.startsWith(".") || !isPicture(file)) left.push(file);
    else classes.set(name, [...(classes.get(name) ?? []), file]);
  }
  return { classes, left };
}

let marked = null; // the innermost place under the files, which has the class `over`

function mark(zone) {
  if (marked === zone) return;
  marked?.classList.remove("over");
  zone?.classList.add("over");
  marked = zone;
}

/** Make an element take dropped files. */
export function takesDrops(zone, take) {
  zone.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    event.stopPropagation();
    mark(zone);
  });
  zone.addEventListener("drop", async (event) => {
    event.preventDefault();
    event.stopPropagation();
    mark(null);
    take(await dropped(event.dataTransfer));
  });
}

/** Take a dropped model file wherever it falls, before the place under it sees the drop. */
export function takesModels(page, isModel, take) {
  page.addEventListener(
    "drop",
    (event) => {
      const file = [...event.dataTransfer.files].find(isModel);
      if (!file) return;
      event.preventDefault();
      event.stopPropagation();
      mark(null);
      take(file);
    },
    { capture: true },
  );
}

/** A file that misses its place must not take the page away. */
export function guardDrops() {
  for (const name of ["dragover", "drop"]) {
    document.addEventListener(name, (event) => {
      event.preventDefault();
      mark(null);
    });
  }
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) mark(null); // out of the window
  });
}

/** A button that opens a file input which nobody sees. */
export function chooses(button, input, take) {
  button.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    take(input);
    input.value = "";
  });
}
