// The device as a backend: the same methods as the server's, done by a worker of this page.

const waiting = new Map(); // calls under way, by their number
const loaders = []; // who hears how much is loaded
const lessons = new Map(); // by id: the states that were told, and who waits for the next
let calls = 0;

/**
 * The worker comes by way of a blob, so that the page's content security policy is its policy too: a
 * worker of a file would have that of the file's own answer, and plain file servers send none.
 */
function started() {
  const address = new URL("worker.js", import.meta.url).href;
  const blob = new Blob([`import ${JSON.stringify(address)};`], { type: "text/javascript" });
  const worker = new Worker(URL.createObjectURL(blob), { type: "module" });
  worker.addEventListener("message", ({ data }) => hear(data));
  worker.addEventListener("error", () => {
    for (const { reject } of waiting.values()) reject(failure({ message: "A part of this page could not be loaded: load it again." }));
    waiting.clear();
  });
  return worker;
}

const worker = started();

const failure = ({ message, ...more }) => Object.assign(new Error(message), { status: 422, alike: [], images: [] }, more);

function hear({ id, found, error, lesson, loaded }) {
  if (loaded) {
    for (const listener of loaders) listener(loaded);
    return;
  }
  if (lesson) {
    told(lesson.id).push(lesson);
    return;
  }
  const call = waiting.get(id);
  waiting.delete(id);
  if (error) call?.reject(failure(error));
  else call?.resolve(found);
}

function ask(method, ...args) {
  calls += 1;
  const id = calls;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    worker.postMessage({ id, method, args });
  });
}

/** The states of a lesson as they come. */
function told(id) {
  if (!lessons.has(id)) lessons.set(id, new States());
  return lessons.get(id);
}

class States {
  last = null;

  constructor() {
    this.expect();
  }

  expect() {
    this.next = new Promise((resolve) => {
      this.came = resolve;
    });
  }

  push(state) {
    this.last = state;
    this.came();
    this.expect();
  }
}

/** What a promise gives, unless a signal comes first. */
const unless = (signal, promise) =>
  Promise.race([promise, new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)))]);

const ENDED = ["done", "failed", "cancelled"];

export const device = {
  onDevice: true,
  /** Show what a page without a server has to say of itself. */
  start: async () => (await import("./status.js")).startStatus(),

  model: () => ask("model"),
  engine: () => ask("engine"),
  /** Hear how many bytes of what computes have come, of how many. */
  onLoading: (listener) => loaders.push(listener),

  async predict(file, { keep = true, signal } = {}) {
    const found = await ask("predict", file, { keep });
    signal?.throwIfAborted();
    return found;
  },

  async teach(classes, { yes = false, sent = () => {}, signal } = {}) {
    sent(1);
    await unless(signal, ask("model")); // until the page is loaded nothing has begun
    const begun = await ask("teach", classes, { yes });
    if (signal?.aborted) await ask("cancel");
    return begun;
  },

  async *watch(id) {
    const states = told(id);
    for (;;) {
      const { next } = states;
      if (states.last) {
        yield states.last;
        if (ENDED.includes(states.last.state)) return;
      }
      await next;
    }
  },

  cancel: () => ask("cancel"),
  correct: (file, label, options) => ask("correct", file, label, options),
  undo: () => ask("undo"),
  rename: (name, to, options) => ask("rename", name, to, options),
  forget: (name) => ask("forget", name),
  merge: (file, options) => ask("merge", file, options),
  open: (file) => ask("open", file),
  download: () => ask("download"),

  inbox: () => ask("inbox"),
  inboxPicture: (id) => ask("inboxPicture", id),
  inboxTeach: (ids, label, options) => ask("inboxTeach", ids, label, options),
  inboxThrowAway: (ids) => ask("inboxThrowAway", ids),
};
