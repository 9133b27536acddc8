// A lesson that is being learned: following it, also after a reload, until it has ended.

import { backend } from "./backend.js";
import { announce, byId, chip, listed, percent, sleep } from "./dom.js";
import { current } from "./model.js";
import { hideOutcome, showOutcome } from "./outcome.js";
import { many } from "./words.js";

const ENDED = ["done", "failed", "cancelled"];
const CANCELLING = "Cancelling…";
let following = null; // the last state of the lesson that is shown, when it comes

let cancelling = false;

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
  hideOutcome();
  cancelling = false;
  byId("lesson-cancel").onclick = () => cancel(id);
  byId("lesson-cancel").disabled = false;
  const last = await untilEnd(id);
  await showOutcome(last);
  return last;
}

async function untilEnd(id) {
  for (;;) {
    try {
      for await (const state of backend.watch(id)) {
        const names = state.classes.map(({ name }) => name);
        panel(`Learning ${listed(names)}`, state.progress, cancelling ? CANCELLING : doing(state), state.classes);
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
  document.body.classList.toggle("learning", share !== null);
  if (share === null) {
    byId("lesson").hidden = true;
    byId("percent").hidden = true;
    return;
  }
  hideOutcome();
  byId("lesson-cancel").disabled = false;
  byId("lesson-cancel").onclick = cancelled;
  if (backend.onDevice) panel(`Looking at the ${many()}`, 0, "One moment", classes);
  else panel(`Sending the ${many()}`, share, share < 1 ? percent(share) : "Sent; they are being looked at", classes);
}

let lastSaid = "";
let lastTime = 0;

function panel(title, share, words, classes) {
  document.body.classList.add("learning");
  byId("lesson").hidden = false;
  byId("lesson-title").textContent = title;
  byId("lesson-bar").value = share;
  byId("lesson-meanwhile").hidden = !current()?.lessons.length;
  byId("lesson-doing").textContent = words;
  byId("percent").textContent = ` ${percent(share)}`;
  byId("percent").hidden = false;
  byId("lesson-classes").replaceChildren(...classes.map((one) => chip(one)));
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

async function cancel(id) {
  byId("lesson-cancel").disabled = true;
  byId("lesson-doing").textContent = CANCELLING;
  cancelling = true; // what is told from now on changes nothing about that
  try {
    await backend.cancel(id);
  } catch (error) {
    if (error.status !== 409) announce(error.message); // 409: it has ended, and the stream says how
  }
}
