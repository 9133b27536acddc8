// Changes to the whole model: undo, rename, forget, merge; and taking it along.

import { backend } from "./backend.js";
import { announce, byId, el } from "./dom.js";
import { adopt, classesOf, current } from "./model.js";
import { ask, withConsent } from "./question.js";
import { items, many, upper } from "./words.js";

const savers = [];

/** Hear which version of the model was saved last. */
export const onSaved = (listener) => savers.push(listener);

/** Do a change, and say what came of it or why not; `more` says what else is worth knowing. Gives whether it was done. */
async function change(words, run, more = difference) {
  const before = classesOf(current());
  let model = null;
  tell("One moment…");
  try {
    model = await run();
    if (model) {
      adopt(model);
      tell(`${words} ${more(before, classesOf(model))}`.trim());
    } else byId("told").hidden = true;
  } catch (error) {
    tell(error.message, true);
  }
  // What was pressed may be gone with its class; the keyboard goes on from here.
  if (document.activeElement === document.body) byId("told").querySelector("button")?.focus();
  return Boolean(model);
}

/** What has changed between two lists of classes, in a sentence or none. */
function difference(before, after) {
  const count = (list, name) => list.find((one) => one.name === name)?.images;
  const gone = before.filter(({ name }) => count(after, name) === undefined).map(({ name }) => `“${name}” is gone`);
  const others = after
    .filter(({ name, images }) => count(before, name) !== images)
    .map(({ name, images }) => `“${name}” ${count(before, name) === undefined ? "is there with" : "has"} ${items(images)}`);
  const parts = [...gone, ...others];
  const more = parts.length > 6 ? ` and ${parts.length - 6} more changes` : "";
  return parts.length ? `${parts.slice(0, 6).join(", ")}${more}.` : "";
}

/** A line at the top of the page that goes when it is read. */
export function tell(words, bad = false) {
  const close = el("button", { type: "button", class: "quiet", text: "Close" });
  close.addEventListener("click", () => {
    byId("told").hidden = true;
    document.querySelector("[role=tab][aria-selected=true]").focus();
  });
  byId("told").className = `told${bad ? " bad" : ""}`;
  byId("told").replaceChildren(el("span", { text: words }), close);
  byId("told").hidden = false;
  announce(words);
}

const undone = () =>
  `The model becomes what it was before its last change${backend.onDevice ? "" : ", whoever made it"}. ${upper(many())} that were taught from the inbox do not come back there.`;

export async function undo(what = "the last change") {
  const sure = await ask({
    title: `Undo ${what}?`,
    words: [undone(), ...(backend.onDevice ? [] : ["A second undo takes this one back."])],
    choices: [["undo", "Undo"]],
  });
  if (!sure) return;
  await change("Undone.", () => backend.undo());
}

export async function rename(name) {
  const said = await ask({
    title: `Rename “${name}”`,
    field: { label: "New name", value: name },
    choices: [["rename", "Rename"]],
  });
  if (!said || said.text === name) return;
  const run = (yes) => backend.rename(name, said.text, { yes });
  await change(`“${name}” is called “${said.text}” from now on.`, () => withConsent(run), () => "");
}

export async function forget(name) {
  const sure = await ask({
    title: `Forget “${name}”?`,
    words: ["It will not be recognised any more: its name, its count and its part in telling the classes apart go. This cannot be undone: what was taken out on purpose does not come back, unless it is taught again."],
    choices: [["forget", `Forget “${name}”`]],
  });
  if (sure) await change("Forgotten.", () => backend.forget(name));
}

export const isModel = (file) => /\.ovor$/i.test(file.name);

async function merge(file) {
  const sure = await ask({
    title: `Merge ${file.name} into this model?`,
    words: [`Afterwards it knows the classes of both; ${many()} of classes that both know are added up. Both must be of the same backbone. Undo takes it back.`],
    choices: [["merge", "Merge"]],
  });
  if (sure) await change(`${file.name} is merged.`, () => withConsent((yes) => backend.merge(file, { yes })));
}

/** Take a model file that was dropped or chosen: where there is nothing to merge it into it is opened, if that can be. */
export async function take(file) {
  const { can_teach: teaches, empty } = current();
  if (backend.onDevice && (empty || !teaches)) await openAnother(file);
  else if (teaches) await merge(file);
}

const LOST = " What this one has learned since it was saved is lost.";
const ASKING = "It is for asking only: what learning needs is not in it.";

/** Put another model in the place of this one; only a page without a server can. */
export async function openAnother(file) {
  const sure = await ask({
    title: `Open ${file.name} instead of this model?`,
    words: [`The page then goes on with that model.${current().empty ? "" : LOST}`],
    choices: [["open", "Open"]],
  });
  if (!sure) return;
  const done = await change(`${file.name} is open.`, () => backend.open(file), () => (current().can_teach ? "" : ASKING));
  if (done) for (const listener of savers) listener(current().version);
}

export async function download() {
  try {
    const { name, version } = current();
    const address = URL.createObjectURL(await backend.download());
    el("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
    for (const listener of savers) listener(version);
  } catch (error) {
    tell(error.message, true);
  }
}
