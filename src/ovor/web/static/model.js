// What the backend says about its model, and who wants to hear when that changes.

import { backend } from "./backend.js";
import { byId } from "./dom.js";
import { speak } from "./words.js";

/** Who takes images: what sentences about limits call it. */
export const taker = backend.onDevice ? "this page" : "the server";

const listeners = [];
let model = null;

export const current = () => model;
export const classesOf = (one) => (one?.lessons ?? []).flatMap(({ classes }) => classes);
export const known = () => classesOf(model).map(({ name }) => name);

export function onModel(listener) {
  listeners.push(listener);
  if (model) listener(model);
}

/** Take a model that came as the answer to a change. */
export function adopt(changed) {
  model = changed;
  speak(model.reads);
  for (const listener of listeners) listener(model);
  return model;
}

/** Ask again; gives the model, or null if the server refuses to say, which is shown. */
export async function refresh() {
  let found;
  try {
    found = await backend.model();
  } catch (error) {
    byId("gone").textContent = error.message;
    byId("gone").hidden = false;
    return null;
  }
  byId("gone").hidden = true;
  return adopt(found);
}

/** A prediction tells which model gave it: another lesson may have ended somewhere else. */
export function seenVersion(version) {
  if (model && version !== model.version) refresh();
}
