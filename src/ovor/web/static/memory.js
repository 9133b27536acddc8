// What was learned so far, and how much of it is still there.

import { chart, shareOf, table } from "./chart.js";
import { byId, counted, el } from "./dom.js";
import { onModel } from "./model.js";

/** A line for each task: its exams, or else what it got right when it was learned. */
function linesOf(model) {
  return model.tasks
    .map(({ task, held_out_accuracy: first }) => {
      const points = model.exams.flatMap(({ lessons, tasks }) =>
        tasks
          .filter((one) => one.task === task && one.accuracy != null)
          .map(({ accuracy }) => ({ lessons, accuracy })),
      );
      if (first != null && !points.some(({ lessons }) => lessons === task)) {
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
  if (behind.length) parts.push(missing(behind, model.tasks.length));
  return parts;
}

function missing(tasks, all) {
  const which =
    tasks.length === all ? "any task" : `task ${tasks.join(", ").replace(/, (\d+)$/, " or $1")}`;
  return el(
    "p",
    { class: "note" },
    `No images are set aside for ${which}, so how much of it was forgotten cannot be measured. Start the server with `,
    el("code", { text: "--exam FOLDER" }),
    " (one sub-folder per class), or leave the box in Teach checked for what comes next.",
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
  const aside = exam?.images ?? task.held_out;
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
      el("span", { class: "hint", text: aside ? `${counted(aside, "image")} set aside` : "" }),
    ),
    el("dl", { class: "facts" }, ...facts),
    el("ul", { class: "chips", "aria-label": "Classes and their numbers of images" }, ...chips),
  );
}

const fact = (name, value, more) =>
  el("div", {}, el("dt", { text: name }), el("dd", { text: value }, ...(more ? [" ", more] : [])));

export function startMemory() {
  onModel((model) => {
    const lines = linesOf(model);
    const open = byId("curve").querySelector("details")?.open;
    byId("curve").replaceChildren(...curve(model, lines));
    if (open) byId("curve").querySelector("details")?.setAttribute("open", "");
    byId("tasks").replaceChildren(...model.tasks.map((task) => card(model, task, lines)));
  });
}
