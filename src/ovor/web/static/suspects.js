// Images of a lesson that look as if they had the wrong name, and putting them right.

import { backend } from "./backend.js";
import { all, nameOf } from "./classes.js";
import { byId, el, percent, thumbnail } from "./dom.js";
import { many, upper } from "./words.js";

const SHOWN = 5;

/** What a card says of them; `learned(model)` hears when one was learned as another class. */
export function suspectList(suspects, learned) {
  if (!suspects.length) return [];
  const rows = suspects.slice(0, SHOWN).map((suspect) => row(suspect, learned));
  const more = suspects.length - rows.length;
  return [
    el("h3", { text: `${upper(many())} that may have the wrong name` }),
    el("ul", { class: "suspects" }, ...rows),
    ...(more > 0 ? [el("p", { class: "hint", text: `And ${more} more, less surely.` })] : []),
  ];
}

function row(suspect, learned) {
  const { image, class: name, looks_like: other, confidence } = suspect;
  const file = fileOf(suspect);
  const words = el("span", { text: `${image}: taught as ${name}, looks like ${other} (${percent(confidence)}).` });
  const said = el("div", {}, words);
  if (file) {
    const move = el("button", { type: "button", text: `It is ${other}`, onclick: () => moved(file, suspect, words, move, learned) });
    said.append(el("div", {}, move));
  }
  return el("li", {}, file ? thumbnail(file) : null, said);
}

/** The file of the form, as long as it is there, if no other of the class has its name. */
function fileOf({ image, class: name }) {
  const own = all().filter((one) => nameOf(one) === name).flatMap((one) => one.images);
  const found = own.filter(({ file }) => file.name === image);
  return found.length === 1 ? found[0].file : null;
}

async function moved(file, { image, class: name, looks_like: other }, words, button, learned) {
  button.disabled = true;
  try {
    const { model } = await backend.correct(file, other, { was: name, yes: true });
    words.textContent = `${image} counts as ${other} now.`;
    button.remove();
    (words.closest("ul").querySelector("button") ?? byId("outcome")).focus();
    learned(model);
  } catch (error) {
    words.textContent = `${image}: ${error.message}`;
    button.disabled = false;
  }
}
