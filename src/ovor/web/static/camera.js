// The camera: what it sees, pictures of it as files, and answers while it looks.

import { Answer, inWords, predict } from "./answer.js";
import { announce, counted, el, isSeen, sleep } from "./dom.js";

const PAUSE = 0.25; // seconds between two answers: a few a second are enough, on a server too
const HELD = 0.2; // seconds between two pictures while a button is held
const MOST = 200; // pictures of one hold
const QUALITY = 0.92;
const NOT_HERE = "Browsers give the camera to pages over https or from this machine alone: open this page that way, or choose photographs.";
const WHY = {
  NotAllowedError: "This page may not use the camera: allow it beside the address, and start it again.",
  NotFoundError: "There is no camera here: choose photographs instead.",
  OverconstrainedError: "There is no such camera here: choose photographs instead.",
  NotReadableError: "The camera does not answer: another program may use it; close that, and start it again.",
};

let running = null; // there is one picture of the world at a time
let pictures = 0;

/** A video of what the camera sees, in the page as long as it runs. */
export class Camera {
  /** `changed` hears when it has started, and when it has stopped with a sentence or none. */
  constructor(video, changed) {
    Object.assign(this, { video, changed, stream: null });
  }

  async start() {
    if (this.stream) return;
    running?.stop();
    running = this;
    try {
      if (!navigator.mediaDevices?.getUserMedia) throw new Error(NOT_HERE);
      const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" }, audio: false });
      if (running !== this) return halt(stream); // another was started meanwhile
      this.stream = stream;
      stream.getVideoTracks()[0].addEventListener("ended", () => this.stop(WHY.NotReadableError));
      this.video.srcObject = stream;
      await this.video.play();
      this.changed(true);
    } catch (error) {
      this.stop(WHY[error.name] ?? (error.message === NOT_HERE ? NOT_HERE : WHY.NotReadableError));
    }
  }

  stop(words = "") {
    halt(this.stream);
    this.stream = null;
    this.video.srcObject = null;
    if (running === this) running = null;
    this.changed(false, words);
  }

  /** What it sees now, as a file. */
  async picture() {
    const { videoWidth: width, videoHeight: height } = this.video;
    const canvas = new OffscreenCanvas(width, height);
    canvas.getContext("2d").drawImage(this.video, 0, 0);
    const blob = await canvas.convertToBlob({ type: "image/jpeg", quality: QUALITY });
    pictures += 1;
    return new File([blob], `camera-${pictures}.jpg`, { type: "image/jpeg" });
  }
}

function halt(stream) {
  for (const track of stream?.getTracks() ?? []) track.stop();
}

/** Nobody should be filmed by a page that he does not look at. */
function stopUnseen() {
  if (running && (document.hidden || !isSeen(running.video))) running.stop();
}

const button = (text, more = {}) => el("button", { type: "button", text, ...more });
const picture = () => el("video", { class: "camera", muted: true, playsinline: true, "aria-label": "What the camera sees" });

// --- asking

/** Answers in a place while the camera looks; `take(file)` gets what is to be asked about for good. */
export function startAsking(place, take) {
  const start = button("Start the camera", { class: "main", id: "camera-start" });
  const shoot = button("Take a picture", { class: "main", hidden: true });
  const stop = button("Stop the camera", { hidden: true });
  const said = el("div", { class: "camera-answer", role: "group", "aria-label": "What it says of what the camera sees" });
  const wrong = el("p", { class: "error", role: "alert", hidden: true });
  const video = picture();
  const both = el("div", { class: "camera-both", hidden: true }, video, said);
  const camera = new Camera(video, (on, words = "") => {
    for (const node of [both, shoot, stop]) node.hidden = !on;
    start.hidden = on;
    wrong.textContent = words;
    wrong.hidden = !words;
    if (on) live(camera, new Answer(said, { most: 3, live: true }));
  });
  start.addEventListener("click", () => camera.start().then(() => camera.stream && shoot.focus()));
  stop.addEventListener("click", () => {
    camera.stop();
    start.focus();
  });
  shoot.addEventListener("click", async () => take(await camera.picture()));
  place.append(both, wrong, el("div", { class: "buttons" }, start, shoot, stop));
}

/** One question after the other, as long as the camera runs: never more than one under way. */
async function live(camera, answer) {
  const { stream } = camera;
  let words = "";
  answer.pending("Looking…");
  while (camera.stream === stream) {
    try {
      const file = await camera.picture();
      const { row, version } = await predict(file, { keep: false });
      if (camera.stream !== stream) return;
      answer.show(file, row, version);
      if (row.label !== words) announce(`The camera: ${inWords(row)}.`);
      words = row.label;
    } catch (error) {
      answer.fail(error.message);
    }
    await sleep(PAUSE);
  }
}

// --- teaching

/** A panel in which pictures are taken for a class; `take(file)` gets each. */
export function teachingPanel(take) {
  const hold = button("Hold to take pictures", { class: "main", disabled: true });
  const close = button("Stop the camera");
  const count = el("span", { class: "hint", role: "status" });
  const wrong = el("p", { class: "error", role: "alert", hidden: true });
  const video = picture();
  const panel = el("div", { class: "camera-panel" }, video, wrong, el("div", { class: "buttons" }, hold, close, count));
  const camera = new Camera(video, (on, words = "") => {
    hold.disabled = !on;
    video.hidden = !on;
    close.textContent = on ? "Stop the camera" : "Start the camera";
    wrong.textContent = words;
    wrong.hidden = !words;
  });
  close.addEventListener("click", () => (camera.stream ? camera.stop() : camera.start()));
  whileHeld(hold, async (held) => {
    let taken = 0;
    do {
      take(await camera.picture());
      taken += 1;
      count.textContent = `${counted(taken, "picture")} taken`;
      await sleep(HELD);
    } while (held() && camera.stream && taken < MOST);
  });
  return { panel, camera };
}

/** Do something as long as a button is pressed, by pointer or by key; once where it is clicked otherwise. */
function whileHeld(control, run) {
  let held = false;
  let busy = false;
  const begin = async () => {
    held = true;
    if (busy) return;
    busy = true;
    try {
      await run(() => held);
    } finally {
      busy = false;
    }
  };
  const end = () => {
    held = false;
  };
  control.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    control.setPointerCapture(event.pointerId);
    begin();
  });
  control.addEventListener("keydown", (event) => {
    if (event.key !== " " && event.key !== "Enter") return;
    event.preventDefault(); // a click would follow
    if (!event.repeat) begin();
  });
  for (const name of ["pointerup", "pointercancel", "keyup", "blur"]) control.addEventListener(name, end);
  control.addEventListener("contextmenu", (event) => event.preventDefault()); // as phones do when one holds
  control.addEventListener("click", (event) => {
    if (event.detail !== 0) return; // of a pointer, which has begun before
    begin();
    end();
  });
}

export function watchCamera() {
  document.addEventListener("visibilitychange", stopUnseen);
  window.addEventListener("hashchange", () => setTimeout(stopUnseen)); // after the view has changed
}
