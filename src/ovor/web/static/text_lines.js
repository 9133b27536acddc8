// Texts of a class that are typed, one a line: they are in the lesson as long as they stand there.

import { el } from "./dom.js";

/** A box for a class; `changed(texts)` hears which stand in it. */
export function lines(id, changed) {
  const box = el("textarea", { id: `${id}-lines`, rows: 4, dir: "auto", spellcheck: "false" });
  box.addEventListener("input", () => changed(box.value.split(/\r\n|\r|\n/).filter((line) => line.trim())));
  const label = el("label", { for: `${id}-lines`, text: "Texts, one a line" });
  return { box, part: el("div", { class: "for-texts typed" }, label, box) };
}
