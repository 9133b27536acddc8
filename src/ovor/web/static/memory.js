// What was learned so far, and how much of it is still there.

import { chart, shareOf, table } from "./chart.js";
import { byId, counted, el } from "./dom.js";
import { onModel } from "./model.js";

const SET_ASIDE =
  "Of each lesson a few images are set aside and never learned from. They are asked again after every later lesson: where a line falls, something was forgotten.";
const EXACT =
  "This model sets no image aside: it learns from all, and judged each by all others when it came. Other images are asked again after every lesson: where a line falls, older classes are taken for newer ones.";

/** A line for each task: its exams, all of the same images; without one, what it got right when it was learned. */
function linesOf(model) {
  return model.tasks
    .map(({ task, held_out_accuracy: first }) => {
      const points = model.exams.flatMap(({ lessons, tasks }) =>
        tasks
          .filter((one) => one.task === task && one.accuracy != null)
          .map(({ accuracy }) => ({ lessons, accuracy })),
      );
      if (first != null && !points.length) {
        points.unshift({ lessons: task, accuracy: first });
      }
      return { task, points };
    })
    .filter(({ points }) => points.length);
}

function curve(model, lines) {
  if (!model.tasks.length) return [el("p", { class: "note", text: "Nothing is learned yet." })];
  const parts = [];
  if (lines.length) {
    parts.push(
      chart(lines, model.tasks.length),
      el("details", {}, el("summary", { text: "The same as a table" }), table(lines, model.tasks.length)),
    );
  }
  const behind = model.tasks.filter(({ task }) => lastExam(model, task)?.accuracy == null).map(({ task }) => task);
  if (behind.length) parts.push(missing(behind, model));
  return parts;
}

function missing(tasks, model) {
  const which =
    tasks.length === model.tasks.length ? "any task" : `task ${tasks.join(", ").replace(/, (\d+)$/, " or $1")}`;
  return el(
    "p",
    { class: "note" },
    `No images were kept to ask about ${which} again, so how much of it was forgotten cannot be measured. Start the server with `,
    el("code", { text: "--exam FOLDER" }),
    model.exact
      ? " (one sub-folder per class)."
      : " (one sub-folder per class), or leave the box in Teach checked and give a class six images or more.",
  );
}

function lastExam(model, task) {
  const exam = model.exams.find(({ lessons }) => lessons === model.tasks.length);
  return exam?.tasks.find((one) => one.task === task);
}

function card(model, task, lines) {
  const points = lines.find((line) => line.task === task.task)?.points ?? [];
  const first = points[0]?.accuracy;
  const exam = lastExam(model, task.task);
  const last = exam?.accuracy;
  const facts = [];
  if (first != null) facts.push(fact(points[0].lessons === task.task ? "When learned" : "First asked", shareOf(first)));
  if (last != null) {
    const change = last - first;
    const kind = Math.abs(change) < 0.05 ? "" : change < 0 ? "down" : "up";
    const points = `${change < 0 ? "−" : "+"}${Math.abs(change).toFixed(1)}`;
    facts.push(fact("Now", shareOf(last), kind ? el("span", { class: kind, text: points }) : null));
  } else facts.push(fact("Now", "not measured"));
  const chips = task.classes.map(({ name, images }) =>
    el("li", {}, el("span", { text: name }), el("small", { text: String(images) })),
  );
  return el(
    "li",
    { class: "card" },
    el(
      "div",
      { class: "line" },
      el("h3", { text: `Task ${task.task}` }),
      el("span", { class: "hint", text: measuredBy(model, task, exam) }),
    ),
    el("dl", { class: "facts" }, ...facts),
    el("ul", { class: "chips", "aria-label": "Classes and their numbers of images" }, ...chips),
  );
}

/** The images that the accuracy of a task is from, in words. */
function measuredBy(model, task, exam) {
  if (exam) return `${counted(exam.images, "image")} asked again`;
  if (model.exact) return "each image judged by all others";
  return task.held_out ? `${counted(task.held_out, "image")} set aside when learned` : "nothing set aside";
}

const fact = (name, value, more) =>
  el("div", {}, el("dt", { text: name }), el("dd", { text: value }, ...(more ? [" ", more] : [])));

export function startMemory() {
  onModel((model) => {
    const lines = linesOf(model);
    const open = byId("curve").querySelector("details")?.open;
    byId("memory-hint").textContent = model.exact ? EXACT : SET_ASIDE;
    byId("curve").replaceChildren(...curve(model, lines));
    if (open) byId("curve").querySelector("details")?.setAttribute("open", "");
    byId("tasks").replaceChildren(...model.tasks.map((task) => card(model, task, lines)));
  });
}
