// What the server says about its model, and who wants to hear when that changes.

import { getJson } from "./api.js";

const listeners = [];
let model = null;

export const current = () => model;
export const known = () => (model?.tasks ?? []).flatMap((task) => task.classes.map((c) => c.name));

export function onModel(listener) {
  listeners.push(listener);
  if (model) listener(model);
}

export async function refresh() {
  model = await getJson("model");
  for (const listener of listeners) listener(model);
  return model;
}

/** A prediction tells which model gave it: another lesson may have ended somewhere else. */
export function seenVersion(version) {
  if (model && version !== model.version) refresh();
}
