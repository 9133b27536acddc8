// What came of a lesson, in a card as green, amber or red as its report's verdict.

import { announce, byId, counted, el, listed, sleep } from "./dom.js";
import { undo } from "./changes.js";
import { refresh } from "./model.js";

const TITLES = {
  good: "Learned well",
  fair: "Learned, but not all of it well",
  poor: "Learned poorly: do not rely on it yet",
};

export const hideOutcome = () => {
  byId("outcome").hidden = true;
};

/** Show how a lesson has ended. */
export async function showOutcome(state) {
  const model = await refresh();
  byId("problems").hidden = true; // they were about another time
  if (state.state === "done") done(state, model);
  else if (state.state === "cancelled") show("", "Cancelled.", ["The model is as it was before."]);
  else show("poor", "This was not learned.", [state.error, ...state.notes]);
}

function done(state, model) {
  examined();
  const { report } = state;
  const counts = listed(state.classes.map(({ name, images }) => `${name} (${images})`));
  const aside = model?.lessons.find(({ lesson }) => lesson === state.lesson)?.held_out;
  const said = model?.exact ? expected(state.accuracy) : right(state.accuracy, aside);
  const words = [said, ...older(report), ...state.notes];
  show(report?.verdict ?? "", `${TITLES[report?.verdict] ?? "Learned"}: ${counts}.`, words, report?.advice, [
    el("a", { href: "#ask", class: "button", text: "Try it" }),
    el("a", { href: "#memory", class: "button", text: "See what it remembers" }),
    el("button", { type: "button", text: "Undo this lesson", onclick: () => undo(`the lesson about ${counts}`) }),
  ]);
}

const older = (report) => [report?.older?.words ?? report?.older].flat().filter((words) => typeof words === "string");

function right(accuracy, aside) {
  if (accuracy == null) return "No image was set aside to test it with: that takes six or more in a class.";
  const few = aside < 10 ? " So few say little: give more images to know better." : "";
  return `${accuracy.toFixed(1)} % right on the ${counted(aside, "image")} set aside.${few}`;
}

function expected(accuracy) {
  if (accuracy == null) return "What to expect of new images cannot be said yet: that takes two images of a class.";
  return `Of new images like these expect ${accuracy.toFixed(1)} % named right (each was judged by all others).`;
}

/** What was set aside is asked again after the lesson has ended: look for that a few times. */
async function examined() {
  for (const seconds of [1, 2, 4, 8, 16]) {
    await sleep(seconds);
    const model = await refresh();
    if (!model || model.exams.some(({ lessons }) => lessons === model.lessons.length)) return;
  }
}

export function show(kind, title, words, advice = [], buttons = []) {
  const said = words.filter(Boolean);
  byId("outcome").className = `card outcome ${kind}`;
  byId("outcome").replaceChildren(
    el("h2", { text: title }),
    ...said.map((text) => el("p", { text })),
    ...(advice?.length ? [el("h3", { text: "What would help" }), el("ul", { class: "advice" }, ...advice.map((text) => el("li", { text })))] : []),
    ...(buttons.length ? [el("p", { class: "buttons" }, ...buttons)] : []),
  );
  byId("outcome").hidden = false;
  announce([title, ...said, ...(advice ?? [])].join(" "));
}
