// What came of a lesson, in a card as green, amber or red as its report's verdict.

import { backend } from "./backend.js";
import { undo } from "./changes.js";
import { announce, byId, el, isSeen, listed, sleep } from "./dom.js";
import { adopt, current, onModel, refresh } from "./model.js";
import { suspectList } from "./suspects.js";
import { items, many, one } from "./words.js";

const TITLES = {
  good: "Learned well",
  fair: "Learned, with doubts",
  poor: "Learned poorly: do not rely on it yet",
};

let version = null; // of the model that the card is about

export const hideOutcome = () => {
  byId("outcome").hidden = true;
};

/** When the model has changed since, a card is history, and its undo would undo something else. */
onModel((model) => {
  if (model.version !== version) hideOutcome();
});

/** Show how a lesson has ended. */
export async function showOutcome(state) {
  const model = await refresh();
  const problems = byId("problems");
  if (!problems.classList.contains("stays")) problems.hidden = true; // they were about another time
  if (state.state === "done") done(state, model);
  else if (state.state === "cancelled") show("", "Cancelled.", ["The model is as it was before."]);
  else show("poor", "This was not learned.", [state.error, ...state.notes]);
}

function done(state, model) {
  examined();
  const { report } = state;
  const counts = listed(state.classes.map(({ name, images }) => `${name} (${images})`));
  const several = (model?.lessons ?? []).flatMap(({ classes }) => classes).length > 1;
  const words = [several && report?.verdict ? expected(report) : "", confused(report), older(report?.older), leftOut(report), repeated(report), ...state.notes];
  const back = el("button", { type: "button", text: "Undo this lesson", onclick: () => undo(`the lesson about ${counts}`) });
  const suspects = suspectList(report?.suspects ?? [], (changed) => {
    version = changed.version; // the card is still about it, but to undo would undo this alone
    back.remove();
    adopt(changed);
  });
  show(report?.verdict ?? "", `${TITLES[report?.verdict] ?? "Learned"}: ${counts}.`, words, report?.advice, [
    el("a", { href: "#ask", class: "button", text: "Try it" }),
    el("a", { href: "#memory", class: "button", text: "See what it remembers" }),
    back,
  ], suspects);
}

/** Which classes are taken for each other. */
function confused(report) {
  const pairs = (report?.pairs ?? []).slice(0, 3).map(({ classes, images }) => `${listed(classes)} (${items(images)})`);
  return pairs.length ? `Taken for each other most often: ${pairs.join("; ")}.` : "";
}

/** What was learned in an earlier lesson, where the model knows that. */
function leftOut(report) {
  const count = report?.left_out?.length ?? 0;
  return count ? `${items(count)} ${count === 1 ? "was" : "were"} learned before, and left out.` : "";
}

/** What was learned more than once, where that is seen: its copies would have judged it. */
function repeated(report) {
  const count = report?.repeated ?? 0;
  return count ? `${items(count)} ${count === 1 ? "was" : "were"} learned before, or ${count === 1 ? "is" : "are"} here twice, and said nothing of new ${many()}.` : "";
}

/** What to expect of new images, by the report of a lesson. */
function expected({ by, judged, expected: share, interval, chance, of_taught: taught, repeated: again }) {
  if (share == null && taught != null) return `Of the ${many()} that it was taught it names ${taught} % right, which promises nothing for others.`;
  if (share == null && again) return `What to expect of new ${many()} cannot be said: none of these is new.`;
  if (share == null) return `What to expect of new ${many()} cannot be said yet: that takes two ${many()} of a class.`;
  const [low, high] = interval.map(Math.round);
  const how = by === "held-out" ? "not learned from" : "each judged by all others";
  return `Of new ${many()} like these expect ${share} % named right (${low} to ${high} %, by ${items(judged)}, ${how}; guessing gives ${Math.round(chance)} %).`;
}

/** What became of older classes. */
function older(found) {
  if (found?.how === "untested") return `Older classes were not tested, as no ${one()} of them is kept: Memory says how to.`;
  if (!found?.classes?.length) return "";
  if (found.lost < 0.5) return `Older classes are recognised as before, as far as can be estimated without their ${many()}.`;
  return `Of older classes about ${items(Math.round(found.lost))} in 100 are now taken for a new class (estimated, without their ${many()}).`;
}

/** What was set aside is asked again after the lesson has ended: look for that a few times. */
async function examined() {
  if (backend.onDevice) return; // nothing is set aside there
  for (const seconds of [1, 2, 4, 8, 16]) {
    await sleep(seconds);
    const model = await refresh();
    if (!model || model.exams.some(({ lessons }) => lessons === model.lessons.length)) return;
  }
}

function show(kind, title, words, advice = [], buttons = [], more = []) {
  const said = words.filter(Boolean);
  byId("outcome").className = `card outcome ${kind}`;
  byId("outcome").replaceChildren(
    el("h2", { text: title }),
    ...said.map((text) => el("p", { text })),
    ...(advice?.length ? [el("h3", { text: "What would help" }), el("ul", { class: "advice" }, ...advice.map((text) => el("li", { text })))] : []),
    ...more,
    ...(buttons.length ? [el("p", { class: "buttons" }, ...buttons)] : []),
  );
  byId("outcome").hidden = false;
  version = current()?.version;
  const at = document.activeElement;
  if (at === document.body || !isSeen(at)) byId("outcome").focus(); // the form was put away
  announce([title, ...said, ...(advice ?? [])].join(" "));
}
