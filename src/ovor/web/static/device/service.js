// What a server would do, in a worker of the page: the model, its encoder, lessons, and what waits.

import { decoded } from "./decode.js";
import { checkReads } from "./description.js";
import { bytesOf, Encoder } from "./encoder.js";
import { Refused } from "./errors.js";
import { Lesson } from "./lesson.js";
import { Memory } from "./memory.js";
import { hex, sha256 } from "./sha256.js";
import { viewOf } from "./view.js";
import { Waiting } from "./waiting.js";

const REMEMBERED = 500; // images whose features are kept, as they are often asked for again
const LEARNING = "A lesson goes on: wait until it has ended, or cancel it.";
const EMPTY = "Nothing is taught yet: teach it something first.";

export class Service {
  constructor(manifest, base, memory, tell) {
    this.manifest = manifest;
    this.memory = memory;
    this.version = 1;
    this.name = manifest.name;
    this.waiting = new Waiting(manifest.limits);
    this.lesson = null;
    this.features = new Map(); // by the digest of the view, the oldest first
    this.loaded = false;
    this.encoder = this.opened(base, tell);
    this.encoder.catch(() => {}); // whoever asks for it hears
  }

  /** Open the page at an address; `tell` hears how many bytes of what computes have come. */
  static async open(base, tell = () => {}) {
    const manifest = JSON.parse(new TextDecoder().decode(await bytesOf(base, "manifest.json")));
    const memory = manifest.model ? await Memory.open(await bytesOf(base, manifest.model)) : Memory.empty(manifest.about);
    checkReads(memory.about, manifest.encoder.reads.many);
    return new Service(manifest, base, memory, tell);
  }

  async opened(base, tell) {
    const encoder = await Encoder.open(base, this.manifest, tell);
    this.loaded = true;
    return encoder;
  }

  /** Which engine computes. */
  async engine() {
    const { words, engine, threads } = await this.encoder;
    return { words, engine, threads };
  }

  model() {
    const { encoder, limits } = this.manifest;
    return {
      ...this.memory.model(),
      name: this.name,
      reads: encoder.reads,
      backbone: encoder.name,
      drawing: encoder.drawing,
      image_size: encoder.size,
      version: this.version,
      limits,
      learning: this.lesson?.going ? this.lesson.id : null,
      inbox: this.waiting.byId.size,
    };
  }

  // --- images

  /** What the network sees of a file, with the digest by which it is known. */
  async view(file) {
    const view = viewOf(await decoded(file, file.name, this.manifest.limits), this.manifest.encoder);
    const digest = sha256(view).slice(0, 16);
    return { view, digest, id: hex(digest) };
  }

  /** The features of some views, of which those that were seen before are not computed again. */
  async featuresOf(views) {
    const known = new Map(views.map(({ id }) => [id, this.features.get(id)])); // which may go while others are computed
    const missing = views.filter(({ id }) => !known.get(id));
    if (missing.length) {
      const found = await (await this.encoder).features(missing.map(({ view }) => view));
      const width = found.length / missing.length;
      missing.forEach(({ id }, i) => known.set(id, found.slice(i * width, (i + 1) * width)));
    }
    for (const [id, features] of known) this.features.set(id, features);
    const all = views.map(({ id }) => known.get(id));
    for (const oldest of this.features.keys()) {
      if (this.features.size <= REMEMBERED) break;
      this.features.delete(oldest);
    }
    return all;
  }

  async predict(file, { keep = true } = {}) {
    if (!this.memory.model().lessons.length) throw new Refused(EMPTY, { status: 409 });
    const seen = await this.view(file);
    const [features] = await this.featuresOf([seen]);
    const [row] = this.memory.classify(features);
    if (keep) this.waiting.consider(seen.id, file, features, row);
    return { version: this.version, row: { image: file.name, ...row } };
  }

  // --- lessons

  /** Begin a lesson about [{name, files}]; `tell` hears its states. */
  teach(classes, { yes = false }, tell) {
    this.checkFree();
    this.memory.checkNames(classes.map(({ name }) => name), { yes });
    this.lesson = new Lesson(this, classes, { yes, tell });
    this.lesson.run();
    return { id: this.lesson.id };
  }

  cancel() {
    this.lesson?.cancel();
  }

  checkFree() {
    if (this.lesson?.going) throw new Refused(LEARNING, { status: 409 });
  }

  // --- changes; each gives the model as it is afterwards

  /** Take over what a change of the memory has made. */
  changed() {
    this.version += 1;
    if (this.memory.model().lessons.length) this.waiting.judgedAgain((features) => this.memory.classify(features));
    return this.model();
  }

  async change(run) {
    this.checkFree();
    await run(this.memory);
    return this.changed();
  }

  async correct(file, label, { was = null, yes = false } = {}) {
    const seen = await this.view(file);
    const [features] = await this.featuresOf([seen]);
    await this.change((memory) => memory.correct(features, seen.digest, label, { was, yes }));
    this.waiting.remove(seen.id);
    const [row] = this.memory.classify(features);
    return { model: this.model(), row: { image: file.name, ...row } };
  }

  undo() {
    return this.change((memory) => memory.undo());
  }

  rename(name, to, { yes = false } = {}) {
    return this.change((memory) => memory.rename(name, to, { yes }));
  }

  forget(name) {
    return this.change((memory) => memory.forget(name));
  }

  async merge(file, { yes = false } = {}) {
    const bytes = await file.arrayBuffer();
    return this.change((memory) => memory.merge(bytes, { yes }));
  }

  /** Go on with another model file in the place of this model. */
  async open(file) {
    this.checkFree();
    const memory = await Memory.open(await file.arrayBuffer(), { like: this.memory });
    this.checkFree(); // a lesson may have begun meanwhile
    [this.memory, this.name] = [memory, file.name];
    return this.changed();
  }

  async download() {
    return new Blob([await this.memory.file()], { type: "application/octet-stream" });
  }

  // --- what waits

  inbox() {
    return this.waiting.shown(this.memory.usualDistance());
  }

  inboxPicture(id) {
    const kept = this.waiting.byId.get(id);
    if (!kept) throw new Refused("There is no such image in the inbox any more.", { status: 404 });
    return kept.file;
  }

  inboxTeach(ids, label, { yes = false }, tell) {
    const kept = ids.map((id) => this.waiting.byId.get(id)).filter(Boolean);
    if (!kept.length) throw new Refused("None of these images waits any more: select others.", { status: 404 });
    const begun = this.teach([{ name: label, files: kept.map(({ file }) => file) }], { yes }, tell);
    this.lesson.leaves = kept.map(({ id }) => id);
    return begun;
  }

  inboxThrowAway(ids) {
    for (const id of ids) this.waiting.remove(id);
    return this.inbox();
  }
}
