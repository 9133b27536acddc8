// A lesson that is being learned: following it, also after a reload, and what came of it.

import { events, send } from "./api.js";
import { announce, byId, counted, el, percent, sleep } from "./dom.js";
import { refresh } from "./model.js";

const ENDED = ["done", "failed", "cancelled"];
let following = null; // the last state of the lesson that is shown, when it comes

export const isFollowing = () => following !== null;

/** Show a lesson until it ends, and give its last state. There is one at a time. */
export function follow(id) {
  following ??= show(id).finally(() => {
    following = null;
    showUpload(null);
  });
  return following;
}

async function show(id) {
  byId("outcome").hidden = true;
  byId("lesson-cancel").onclick = () => cancel(id);
  byId("lesson-cancel").disabled = false;
  const last = await untilEnd(id);
  await ended(last);
  return last;
}

async function untilEnd(id) {
  for (;;) {
    try {
      for await (const state of events(`tasks/${id}/events`)) {
        const names = state.classes.map(({ name }) => name);
        panel(`Learning ${listed(names)}`, state.progress, doing(state), state.classes);
        if (ENDED.includes(state.state)) return state;
      }
    } catch (error) {
      const lost = "The server was restarted and does not know this lesson: see Memory, and teach it again if it is not there.";
      const said = error.status === 404 ? lost : error.message;
      if (error.status) return { state: "failed", error: said, classes: [], images: [], notes: [] };
    }
    await sleep(1); // the stream broke: it is asked for again
  }
}

/** The same panel while images are on their way; null takes it away. */
export function showUpload(share, classes = [], cancelled = null) {
  if (share === null) {
    byId("lesson").hidden = true;
    byId("form").hidden = false;
    byId("percent").hidden = true;
    return;
  }
  byId("outcome").hidden = true;
  byId("lesson-cancel").disabled = false;
  byId("lesson-cancel").onclick = cancelled;
  panel("Sending the images", share, share < 1 ? percent(share) : "Sent; they are being looked at", classes);
}

let lastSaid = "";
let lastTime = 0;

function panel(title, share, words, classes) {
  byId("form").hidden = true;
  byId("lesson").hidden = false;
  byId("lesson-title").textContent = title;
  byId("lesson-bar").value = share;
  byId("lesson-doing").textContent = words;
  byId("percent").textContent = ` ${percent(share)}`;
  byId("percent").hidden = false;
  const chips = classes.map(({ name, images }) =>
    el("li", {}, el("span", { text: name }), el("small", { text: counted(images, "image") })),
  );
  byId("lesson-classes").replaceChildren(...chips);
  if (words !== lastSaid && Date.now() - lastTime > 4000) {
    announce(words); // not five times a second
    [lastSaid, lastTime] = [words, Date.now()];
  }
}

function doing(state) {
  const parts = [sentence(state.doing || state.state), percent(state.progress)];
  if (state.seconds_left != null) parts.push(`${duration(state.seconds_left)} left`);
  return parts.join(" · ");
}

const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1);

function duration(seconds) {
  if (seconds < 90) return `about ${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `about ${Math.round(seconds / 60)} min`;
  return `about ${(seconds / 3600).toFixed(1)} h`;
}

export const listed = (names) =>
  names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;

async function cancel(id) {
  byId("lesson-cancel").disabled = true;
  byId("lesson-doing").textContent = "Cancelling…";
  try {
    await send(`tasks/${id}`, { method: "DELETE" });
  } catch (error) {
    if (error.status !== 409) announce(error.message); // 409: it has ended, and the stream says how
  }
}

async function ended(state) {
  const model = await refresh();
  byId("problems").hidden = true; // they were about another time
  const counts = state.classes.map(({ name, images }) => `${name} (${images})`);
  if (state.state === "done") {
    examined();
    const aside = model?.tasks.find(({ task }) => task === state.task)?.held_out;
    const said = model?.exact ? expected(state.accuracy) : right(state.accuracy, aside);
    const title = state.task == null ? "More learned" : `Task ${state.task} learned`;
    outcome("good", `${title}: ${listed(counts)}.`, [said, ...state.notes], [
      ["#predict", "Try it"],
      ["#memory", "See what it remembers"],
    ]);
  } else if (state.state === "cancelled") {
    outcome("", "Cancelled.", ["The model is as it was before."]);
  } else {
    outcome("bad", "This was not learned.", [state.error, ...state.notes]);
  }
}

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
    if (!model || model.exams.some(({ lessons }) => lessons === model.tasks.length)) return;
  }
}

function outcome(kind, title, words, links = []) {
  const said = words.filter(Boolean);
  byId("outcome").className = `card outcome ${kind}`;
  byId("outcome").replaceChildren(
    el("h2", { text: title }),
    ...said.map((text) => el("p", { text })),
    ...(links.length
      ? [el("p", { class: "buttons" }, ...links.map(([href, text]) => el("a", { href, class: "button", text })))]
      : []),
  );
  byId("outcome").hidden = false;
  announce([title, ...said].join(" "));
}
