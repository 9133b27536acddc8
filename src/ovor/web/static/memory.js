// What was learned so far, how much of it is to be expected, and how much of it is still there.

import { backend } from "./backend.js";
import { forget, rename } from "./changes.js";
import { chart, legend, table } from "./chart.js";
import { byId, counted, el, listed, svg, tile } from "./dom.js";
import { inWords, interval, shareOf } from "./interval.js";
import { classesOf, onModel } from "./model.js";
import { items, many, upper } from "./words.js";

const setAside = () =>
  `Of each lesson a few ${many()} are set aside and never learned from. They are asked again after every later lesson: where a line falls, something was forgotten.`;
const exact = () =>
  `${upper(many())} that it has not learned from are asked again after every lesson: where a line falls, older classes are taken for newer ones.`;

const MOST = 8; // lines by class; more classes are drawn by lesson

/** Whether a point is of the model's own past; one of a lesson that was undone may still be there. */
const past = (model) => (point) => point.lessons <= model.lessons.length;

/** Lines of what was asked again after the lessons, the same images each time: by class, or by lesson. */
function linesOf(model) {
  const asked = model.memory.map((line) => ({ ...line, points: line.points.filter(({ by }) => by === "exam").filter(past(model)) }));
  const byClass = asked.filter(({ points }) => points.length);
  if (byClass.length <= MOST) return byClass.map(({ name, points }) => ({ name, points }));
  return model.lessons
    .map(({ lesson, classes }) => ({ name: namesOf(classes), points: groupPoints(model, lesson) }))
    .filter(({ points }) => points.length);
}

const groupPoints = (model, lesson) =>
  model.exams.filter(past(model)).flatMap(({ lessons, groups }) =>
    groups.filter((one) => one.lesson === lesson).map(({ images, right }) => ({ lessons, images, right })),
  );

function namesOf(classes, most = 3) {
  const names = classes.map(({ name }) => name);
  return names.length > most ? `${names.slice(0, most - 1).join(", ")} and ${names.length - most + 1} more` : listed(names);
}

/** What was named right of the images of a class when it was asked last, if that was after the last lesson. */
const askedNow = (model, name) =>
  model.exams.find(({ lessons }) => lessons === model.lessons.length)?.classes.find((one) => one.name === name);

function curve(model, lines) {
  const lessons = model.lessons.length;
  const parts = [];
  if (lines.length) {
    parts.push(
      chart(lines, lessons),
      legend(lines),
      el("details", {}, el("summary", { text: "The same as a table" }), table(lines, lessons)),
    );
  }
  const behind = classesOf(model).filter(({ name }) => !askedNow(model, name));
  if (behind.length) parts.push(missing(behind, model));
  return parts;
}

function missing(behind, model) {
  const which = behind.length === classesOf(model).length ? "its classes" : namesOf(behind);
  return el(
    "p",
    { class: "note" },
    `No ${many()} are there to ask about ${which} again, so what was forgotten of them is not measured. Start the server with `,
    el("code", { text: "--exam FOLDER" }),
    model.exact
      ? " (one sub-folder per class)."
      : ` (one sub-folder per class), or leave the box in Teach checked and give a class six ${many()} or more.`,
  );
}

// --- the lessons and their classes

function lessonCard(model, { lesson, classes, held_out: aside, held_out_accuracy: accuracy }) {
  const images = classes.reduce((sum, one) => sum + one.images, 0);
  const test = aside && accuracy != null ? `; ${inWords((aside * accuracy) / 100, aside)} of ${aside} set aside were right` : "";
  return el(
    "li",
    { class: "card lesson-card" },
    el("div", { class: "line" }, el("h3", { text: `Lesson ${lesson}` }), el("span", { class: "hint", text: `${items(images)}${test}` })),
    el("ul", { class: "class-rows" }, ...classes.map((one) => classRow(model, one))),
  );
}

function classRow(model, { name, images, expected }) {
  const button = (text, run) => el("button", { type: "button", class: "quiet", "aria-label": `${text} ${name}`, text, onclick: () => run(name) });
  return el(
    "li",
    { class: "class-row" },
    el("span", { class: "class-name" }, tile(name), el("strong", { text: name })),
    el("span", { class: "hint", text: items(images) }),
    ...howWell(model, name, images, expected),
    ...(model.can_teach ? [el("span", { class: "class-changes" }, button("Rename", rename), button("Forget", forget))] : []),
  );
}

/** What is to be expected of a class: by images asked again, or by its own, each judged by all others. */
function howWell(model, name, images, expected) {
  const said = (words) => el("span", { class: "expected", text: words });
  const asked = askedNow(model, name);
  if (asked) return [track(asked.right, asked.images), said(`${inWords(asked.right, asked.images)} of ${asked.images} asked again`)];
  if (expected == null) return [said(model.exact ? `too few ${many()} to say what to expect` : "")];
  const right = (expected * images) / 100;
  return [track(right, images), said(`expect ${inWords(right, images)}, as it was when its ${many()} came`)];
}

/** A scale from 0 to 100 % with the accuracy as a mark and its interval as a band. */
function track(right, images) {
  const accuracy = (100 * right) / images;
  const [low, high] = interval(right, images);
  return svg(
    "svg",
    { class: "track", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "track-ground", x: 0, y: 3, width: 100, height: 4 }),
    svg("rect", { class: "track-band", x: low, y: 2, width: high - low, height: 6 }),
    svg("rect", { class: "track-mark", x: Math.min(98.6, Math.max(0, accuracy - 0.7)), y: 0, width: 1.4, height: 10 }),
  );
}

/** What it knows and how well, in a sentence. */
function summary(model) {
  if (!model.lessons.length) return "Nothing is learned yet.";
  const classes = classesOf(model);
  const images = classes.reduce((sum, one) => sum + one.images, 0);
  const judged = classes.filter(({ expected }) => expected != null);
  const worst = [...judged].sort((a, b) => a.expected - b.expected)[0];
  const weakest = worst && worst.expected < 90 ? ` Weakest: ${worst.name}, of which ${shareOf(worst.expected)} are expected to be named right: more ${many()} of it would help.` : "";
  return `It knows ${counted(classes.length, "class", "classes")} by ${items(images)}, and keeps none of them.${weakest}`;
}

export function startMemory() {
  onModel((model) => {
    const lines = linesOf(model);
    const open = byId("curve").querySelector("details")?.open;
    byId("memory-words").textContent = summary(model);
    byId("memory-scale").hidden = !classesOf(model).some(({ name, expected }) => expected != null || askedNow(model, name));
    byId("memory-hint").textContent = model.exact ? exact() : setAside();
    byId("remembers").hidden = !model.lessons.length || Boolean(backend.onDevice); // where none are asked again
    byId("curve").replaceChildren(...curve(model, lines));
    if (open) byId("curve").querySelector("details")?.setAttribute("open", "");
    byId("lessons").replaceChildren(...model.lessons.map((lesson) => lessonCard(model, lesson)));
  });
}
