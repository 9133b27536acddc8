// Questions that must be answered before something is done, in one dialog.

import { byId, el } from "./dom.js";
import { known as classes } from "./model.js";

/**
 * Ask, and give {choice, text}, or null if the question was closed. `choices` are [value, label]
 * with the recommended one first; `field` is {label, value} where a word is asked for.
 */
export function ask({ title, words = [], field = null, choices }) {
  const dialog = byId("question");
  byId("question-title").textContent = title;
  byId("question-words").replaceChildren(...words.map((text) => el("p", { text })));
  byId("question-field").hidden = !field;
  byId("question-label").textContent = field?.label ?? "";
  const input = byId("question-text");
  input.value = field?.value ?? "";
  input.required = Boolean(field);
  return new Promise((resolve) => {
    let found = null;
    const take = (choice) => {
      if (!input.reportValidity()) return;
      found = { choice, text: input.value.trim() };
      dialog.close();
    };
    const buttons = choices.map(([value, label], i) =>
      el("button", { type: "button", text: label, class: i ? "" : "main", onclick: () => take(value) }),
    );
    const no = el("button", { type: "button", text: "Cancel", onclick: () => dialog.close() });
    byId("question-choices").replaceChildren(...buttons, no);
    byId("question-form").onsubmit = (event) => {
      event.preventDefault();
      take(choices[0][0]);
    };
    dialog.onclose = () => resolve(found);
    dialog.showModal();
    (field ? input : buttons[0]).focus();
    if (field) input.select();
  });
}

/**
 * Do something with names; where one looks like a known one, ask which is meant and do it again.
 * `run(meant, yes)` gets a map from names that were given to known ones that are meant instead.
 * Gives null where the question was closed.
 */
export async function withNames(run) {
  const meant = new Map();
  return repeated((yes) => run(meant, yes), whichOf, ({ choice }, alike) => {
    if (choice === "same") for (const { given, known } of alike) meant.set(given, known);
    return choice === "other";
  });
}

/** The same where the known class cannot be taken instead: go on with the name, or don't. */
export const withConsent = (run) => repeated(run, anyhow, () => true);

async function repeated(run, question, answered) {
  let yes = false;
  for (;;) {
    try {
      return await run(yes);
    } catch (error) {
      if (error.status !== 409 || !error.alike?.length) throw error;
      const chosen = await question(error.alike);
      if (!chosen) return null;
      yes = answered(chosen, error.alike) || yes;
    }
  }
}

const MIXED = "Two such classes are easily mixed up later.";
const why = (alike) =>
  alike.some(({ known }) => classes().includes(known))
    ? `It knows a class whose name looks like this one. ${MIXED}`
    : `Two names here differ only by case or look. ${MIXED}`;
const pairs = (alike) => alike.map(({ given, known }) => `“${given}” and “${known}”`);

function whichOf(alike) {
  const [{ given, known }] = alike;
  const one = alike.length === 1;
  return ask({
    title: one ? `Is “${given}” the same as “${known}”?` : "Are these the same?",
    words: [...(one ? [] : pairs(alike)), why(alike)],
    choices: [
      ["same", one ? `Yes, it is “${known}”` : "Yes, use the second names"],
      ["other", one ? `No, “${given}” is another class` : "No, they are other classes"],
    ],
  });
}

const anyhow = (alike) =>
  ask({ title: "Go on with names that look alike?", words: [...pairs(alike), why(alike)], choices: [["other", "Go on"]] });
