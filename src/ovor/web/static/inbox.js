// What waits to be named: images that were called unknown or answered without much confidence.

import { backend } from "./backend.js";
import { tell } from "./changes.js";
import { announce, byId, el, paint, percent, quote } from "./dom.js";
import { follow, isFollowing } from "./lesson.js";
import { current, onModel } from "./model.js";
import { ask, withNames } from "./question.js";
import { items, many, one, written } from "./words.js";

let boxes = []; // the check boxes of the images, in the order of the page
let last = null; // the box that was clicked before, where a range begins
let groups = []; // [{all, own}]: the box of a group and those of its images

const flag = () => el("code", { text: "--inbox FOLDER" });
const WHERE = {
  memory: () => ["They are in the server’s memory alone, and gone when it stops; started with ", flag(), " it keeps them there."],
  folder: () => ["They are kept in the folder that the server was started with (", flag(), "), until they are taught or thrown away."],
  tab: () => ["They are in this tab alone, and gone when it is closed."],
  nothing: () => ["This server was started without an inbox."],
};

const inWords = (image) =>
  image.label === "unknown" ? `unknown – most like ${image.likeliest}` : `${image.label}? ${percent(image.confidence)}`;

const every = () => [...groups.map(({ all }) => all), ...boxes];
const chosen = () => boxes.filter((box) => box.checked);
const ids = () => chosen().map((box) => box.value);

// --- pictures, when they come into sight

const sight = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      sight.unobserve(target);
      if (written()) backend.inboxText(target.dataset.id).then((text) => target.append(quote(text)), () => {});
      else backend.inboxPicture(target.dataset.id).then((blob) => paint(target, blob), () => {});
    }
  },
  { rootMargin: "200px" },
);

function picture(image) {
  const frame = el("span", { class: written() ? "quoted" : "thumb", "data-id": image.id });
  const box = el("input", { type: "checkbox", value: image.id });
  const words = el("span", { class: "inbox-words", text: inWords(image) });
  box.addEventListener("click", (event) => range(box, event.shiftKey));
  boxes.push(box);
  sight.observe(frame);
  return el("li", {}, el("label", { class: "waiting", title: image[one()] }, box, frame, words));
}

/** A card for images that are alike, or for those that are like no other. */
function groupCard(title, hint, images) {
  const first = boxes.length;
  const all = el("input", { type: "checkbox", value: `group of ${images[0].id}` });
  const card = el(
    "section",
    { class: "group", "aria-label": title },
    el("label", { class: "check" }, all, el("strong", { text: title }), el("span", { class: "hint", text: hint })),
    el("ul", { class: "inbox" }, ...images.map(picture)),
  );
  const own = boxes.slice(first);
  all.addEventListener("change", () => {
    for (const box of own) box.checked = all.checked;
    update();
  });
  groups.push({ all, own });
  return card;
}

function cardsOf(found) {
  const byNumber = new Map(found.images.map((image) => [image.id, image]));
  const sets = found.groups.map(({ images, likeliest }) => ({
    likeliest,
    images: images.map((id) => byNumber.get(id)).filter(Boolean),
  }));
  const alike = sets.filter(({ images }) => images.length > 1);
  const single = sets.filter(({ images }) => images.length === 1).flatMap(({ images }) => images);
  return [
    ...alike.map(({ images, likeliest }, i) => groupCard(`Group ${i + 1}: ${images.length} that ${written() ? "are" : "look"} alike`, `most like ${likeliest}`, images)),
    ...(single.length ? [groupCard(`${items(single.length)} like no other`, "", single)] : []),
  ];
}

/** Shift and a click choose all between the last click and this one. */
function range(box, shift) {
  if (shift && last && boxes.includes(last)) {
    const [from, to] = [boxes.indexOf(last), boxes.indexOf(box)].sort((a, b) => a - b);
    for (const between of boxes.slice(from, to + 1)) between.checked = box.checked;
  }
  last = box;
  update();
}

function update() {
  for (const { all, own } of groups) {
    const some = own.filter((box) => box.checked).length;
    all.checked = some === own.length;
    all.indeterminate = some > 0 && some < own.length;
  }
  const count = chosen().length;
  byId("inbox-count").textContent = count ? `${items(count)} selected` : `Select ${many()}, or a whole group, and say what they are.`;
  byId("inbox-teach").disabled = byId("inbox-throw").disabled = byId("inbox-name").disabled = !count;
  byId("inbox-all").textContent = count === boxes.length && count ? "Select none" : "Select all";
}

/** Show what waits; what was selected stays so, and who is among it with the keyboard stays there. */
function show(found) {
  const kept = new Set(ids());
  const list = byId("inbox-groups");
  const held = list.contains(document.activeElement) ? document.activeElement.value : null;
  const before = last?.value;
  [boxes, groups] = [[], []];
  list.replaceChildren(...cardsOf(found));
  for (const box of boxes) box.checked = kept.has(box.value);
  last = boxes.find(({ value }) => value === before) ?? null;
  byId("inbox-where").replaceChildren(...WHERE[found.kept]());
  byId("inbox-work").hidden = !boxes.length;
  byId("inbox-empty").hidden = boxes.length > 0;
  const badge = byId("waiting");
  badge.hidden = !boxes.length;
  badge.textContent = boxes.length ? ` ${boxes.length}` : "";
  update();
  if (held !== null) (every().find(({ value }) => value === held) ?? every()[0] ?? byId("tab-inbox")).focus();
}

let asking = false;
let again = false;

/** Look what waits; while it is looked, once more is enough. */
export async function lookAgain() {
  if (!current()?.can_teach || !current().lessons.length) return;
  again = true;
  if (asking) return;
  asking = true;
  try {
    while (again) {
      again = false;
      show(await backend.inbox());
    }
  } catch (error) {
    byId("inbox-where").textContent = error.message;
  } finally {
    asking = false;
  }
}

async function teach(event) {
  event.preventDefault();
  const name = byId("inbox-name").value.trim().normalize("NFC");
  if (!name || !chosen().length) {
    byId("inbox-name").focus();
    return;
  }
  if (isFollowing()) return;
  const taught = ids();
  try {
    const begun = await withNames((meant, yes) => backend.inboxTeach(taught, meant.get(name) ?? name, { yes }));
    if (!begun) return;
    byId("inbox-name").value = "";
    const end = await follow(begun.id);
    if (end.state === "done") {
      for (const box of boxes) if (taught.includes(box.value)) box.checked = false;
      await lookAgain();
    }
  } catch (error) {
    tell(error.message, true);
  }
}

async function throwAway() {
  const gone = ids();
  const sure = await ask({
    title: `Throw away ${items(gone.length)}?`,
    words: ["Nothing is learned from them, and they do not come back."],
    choices: [["throw", "Throw away"]],
  });
  if (!sure) return;
  try {
    await backend.inboxThrowAway(gone);
    await lookAgain();
    announce(`${items(gone.length)} thrown away.`);
  } catch (error) {
    tell(error.message, true);
  }
  (boxes[0] ?? byId("tab-inbox")).focus();
}

export function startInbox() {
  byId("inbox-work").addEventListener("submit", teach);
  byId("inbox-throw").addEventListener("click", throwAway);
  byId("inbox-all").addEventListener("click", () => {
    const all = chosen().length < boxes.length;
    for (const box of boxes) box.checked = all;
    update();
  });
  let version = null;
  onModel((model) => {
    if (model.version === version) return; // a lesson changes what waits, and how it is grouped
    version = model.version;
    lookAgain();
  });
}
