// A backend in the page itself, in the place of the server's: what `window.stub` says, and a list of
// what was asked of it in `window.calls`.

const { stub } = window;
window.calls = [];

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

class Refused extends Error {
  constructor({ status, error, alike = [] }) {
    super(error);
    Object.assign(this, { status, alike, images: [] });
  }
}

/** Note a call; refuse it where the stub says so, unless it was confirmed. */
async function called(name, facts) {
  window.calls.push({ name, ...facts });
  await pause(stub.delay ?? 0);
  await stub.held; // until the test lets it go
  if (stub.broken?.[name]) throw new Refused({ status: 500, error: stub.broken[name] });
  const refusal = stub.refuse?.[name];
  if (refusal && !facts.yes && (refusal.label ?? facts.label) === facts.label) throw new Refused(refusal);
}

const changed = (more) => {
  stub.model = { ...stub.model, version: stub.model.version + 1, ...more };
  return stub.model;
};

export const backend = {
  async model() {
    while (stub.late) await pause(20);
    return stub.model;
  },
  async predict(file, { keep = true, signal } = {}) {
    await called("predict", { file: file.name, keep, text: file.type === "text/plain" ? await file.text() : null });
    signal?.throwIfAborted();
    return { version: stub.model.version, row: { image: file.name, ...stub.rows[Math.min(stub.rows.length - 1, (stub.asked = (stub.asked ?? 0) + 1) - 1)] } };
  },
  async teach(classes, { yes, keep, sent }) {
    sent(1);
    const labels = classes.map(({ name, files }) => `${name} ${files.length}`).join(", ");
    const names = classes.flatMap(({ files }) => files.map((file) => file.name));
    await called("teach", { label: classes[0].name, labels, names, yes, keep });
    return { id: "one" };
  },
  async *watch(id) {
    await called("watch", { id });
    if (stub.after) changed(stub.after);
    yield { progress: 1, doing: "done", seconds_left: null, notes: [], images: [], error: null, ...stub.lesson };
  },
  cancel: (id) => called("cancel", { id }),
  async correct(file, label, { was, yes }) {
    await called("correct", { file: file.name, label, was, yes });
    return { model: changed(), row: stub.corrected ?? row(label) };
  },
  async undo() {
    await called("undo", {});
    return changed(stub.before);
  },
  async rename(name, to, { yes }) {
    await called("rename", { from: name, to, yes });
    return changed(stub.after);
  },
  async forget(name) {
    await called("forget", { label: name });
    return changed(stub.after);
  },
  async merge(file, { yes }) {
    await called("merge", { file: file.name, yes });
    return changed(stub.after);
  },
  async download() {
    await called("download", {});
    return new Blob(["a model"]);
  },
  async inbox() {
    return stub.inbox ?? { kept: "memory", most: 500, images: [], groups: [] };
  },
  async inboxPicture(id) {
    const canvas = new OffscreenCanvas(28, 28);
    const pen = canvas.getContext("2d");
    pen.fillStyle = "white";
    pen.fillRect(3, 3, 5 + (Number(id) % 15), 9);
    return canvas.convertToBlob();
  },
  async inboxText(id) {
    return stub.texts[Number(id)];
  },
  async table(file, { labelled }) {
    await called("table", { file: file.name, labelled });
    return stub.table;
  },
  async inboxTeach(ids, label, { yes }) {
    await called("inboxTeach", { ids, label, yes });
    stub.inbox = without(ids);
    return { id: "one" };
  },
  async inboxThrowAway(ids) {
    await called("inboxThrowAway", { ids });
    stub.inbox = without(ids);
    return stub.inbox;
  },
};

const row = (label) => ({ label, unknown: false, likeliest: label, confidence: 0.97, best: [{ class: label, confidence: 0.97 }] });

const without = (gone) => ({
  ...stub.inbox,
  images: stub.inbox.images.filter(({ id }) => !gone.includes(id)),
  groups: stub.inbox.groups
    .map((group) => ({ ...group, images: group.images.filter((id) => !gone.includes(id)) }))
    .filter(({ images }) => images.length),
});
