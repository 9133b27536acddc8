// What the server says about its model, and who wants to hear when that changes.

import { getJson } from "./api.js";
import { byId } from "./dom.js";

const listeners = [];
let model = null;

export const current = () => model;
export const known = () => (model?.tasks ?? []).flatMap((task) => task.classes.map((c) => c.name));

export function onModel(listener) {
  listeners.push(listener);
  if (model) listener(model);
}

/** Ask again; gives the model, or null if the server refuses to say, which is shown. */
export async function refresh() {
  try {
    model = await getJson("model");
  } catch (error) {
    byId("gone").textContent = error.message;
    byId("gone").hidden = false;
    return null;
  }
  byId("gone").hidden = true;
  for (const listener of listeners) listener(model);
  return model;
}

/** A prediction tells which model gave it: another lesson may have ended somewhere else. */
export function seenVersion(version) {
  if (model && version !== model.version) refresh();
}
