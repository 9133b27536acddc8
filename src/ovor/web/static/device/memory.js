// A classifier's memory on the device: exact sums, the head that follows from them, and its file.
// Everything that happens after an image has become features; the same as in Python.

import { calibrated } from "./calibration.js";
import { corrected, forgotten, merged, renamed, unlearned } from "./changes.js";
import { checkAlike, checkedAbout } from "./description.js";
import { Refused } from "./errors.js";
import { FULL, kernel } from "./kernel.js";
import { argmax, byRows, dot, sum } from "./linear.js";
import { readModel, writeModel } from "./model_file.js";
import { UNKNOWN } from "./names.js";
import { mapped, parse } from "./python_json.js";
import { rounded } from "./rounding.js";
import { lessonsOf, memoryOf } from "./shown.js";
import { namesOf } from "./tasks.js";
import { checkNames, taught } from "./teaching.js";

const TOP = 5; // classes that a prediction names
const NOTHING = "Nothing is taught yet: teach it something first.";
const NO_SUMS =
  "This model is for predicting only, without the sums that learning needs: use the one that it was exported from.";

export class Memory {
  #state = null; // all that was learned; never changed in place
  #past = null; // the state before the last change, in a list: it may be that there was none
  #judge = null;
  #bytes = 0; // of the file as it was last read or written
  #version = 1;

  constructor(about, bundled, state, kernel, bytes) {
    Object.assign(this, { about, bundled, kernel });
    this.#state = state;
    this.#bytes = bytes;
  }

  /** One that has learned nothing; `about` is the JSON value of a model file without tasks, or its text. */
  static empty(about) {
    const words = typeof about === "string" ? parse(about) : mapped(about);
    return new Memory(checkedAbout(words), new Map(), null, null, 0);
  }

  /**
   * The memory of an .ovor file; whatever is wrong with it is an error with a sentence. Where it is to
   * take the place of another memory (`like`), it must have been learned with the same encoder.
   */
  static async open(content, { like = null } = {}) {
    const bytes = bytesOf(content);
    const { about, bundled, state } = await readModel(bytes, like?.fits);
    return new Memory(about, bundled, state, await kernel(), bytes.length);
  }

  /** The .ovor file, which Python reads too. */
  async file() {
    const found = await writeModel(this.about, this.bundled, this.#known());
    this.#bytes = found.length;
    return found;
  }

  get empty() {
    return !this.#state;
  }

  get classes() {
    return namesOf(this.#state?.tasks ?? []);
  }

  /** Numbers of a feature; null as long as nothing is learned. */
  get width() {
    return this.#state?.width ?? null;
  }

  /** What GET /model of a server would say. */
  model() {
    const lessons = this.#state ? lessonsOf(this.#state) : [];
    const { backbone, imageSize } = this.about;
    return {
      name: "model.ovor",
      method: "analytic",
      exact: true,
      backbone: backbone.name,
      drawing: backbone.name === "embedded",
      image_size: imageSize,
      megabytes: rounded(this.#bytes / 1e6, 3),
      version: this.#version,
      empty: !this.#state,
      can_teach: !this.#state || this.#state.moments !== null,
      can_undo: this.#past !== null,
      lessons,
      exams: [],
      memory: memoryOf(lessons),
      limits: {},
      learning: null,
      inbox: 0,
    };
  }

  // --- answers

  /** The head's outputs before they become probabilities, a row an image; features are as the network gave them. */
  outputs(features) {
    const { head, width } = this.#known();
    const classes = head.bias.length;
    if (!features.length || features.length % width) throw new Refused("The features do not fit the model: use its own encoder.");
    const all = byRows(this.kernel, new Float64Array(features), head.weights, features.length / width, classes, width);
    return Array.from({ length: features.length / width }, (_, i) =>
      all.subarray(i * classes, (i + 1) * classes).map((x, c) => x + head.bias[c]),
    );
  }

  /** What is said of each image: a row as Python, the terminal and HTTP have it. */
  classify(features, { top = TOP } = {}) {
    const { threshold, confidence } = this.#judging();
    const { novelty } = this.#known();
    const distances = features.length ? novelty.distances(this.kernel, features) : [];
    const outputs = features.length ? this.outputs(features) : [];
    return outputs.map((logits, i) => this.#row(calibrated(logits, confidence), threshold - distances[i], top));
  }

  #row(shares, margin, top) {
    if (Number.isNaN(margin) || !shares.every(Number.isFinite)) {
      throw new Refused(
        "The answers of this model are not finite numbers (NaN or infinity), so it can name nothing: put a good copy in " +
          "its place, or learn it anew.",
      );
    }
    const names = this.classes;
    const best = argmax(shares);
    const order = [...shares.keys()].sort((a, b) => shares[b] - shares[a] || a - b).slice(0, top);
    return {
      label: margin < 0 ? UNKNOWN : names[best],
      unknown: margin < 0,
      likeliest: names[best],
      confidence: rounded(shares[best], 6),
      margin: rounded(margin, 6),
      best: order.map((c) => ({ class: names[c], confidence: rounded(shares[c], 6) })),
    };
  }

  /** The mean squared distance of the features of two images of one class, if the sums tell it. */
  usualDistance() {
    const { moments, width } = this.#state ?? {};
    if (!moments) return null;
    const { counts, sums, second } = moments;
    let within = 0;
    for (let j = 0; j < width; j += 1) within += second[j * width + j];
    counts.forEach((count, c) => {
      within -= dot(sums, sums, width, c * width, c * width) / count;
    });
    const freedom = sum(counts) - counts.length;
    return freedom > 0 && within > 0 ? (2 * within) / freedom : null;
  }

  // --- changes, each wholly or not at all

  /**
   * Learn [{name, features, images, digests}], new classes or more of known ones; gives the lesson's report.
   * `settle` is waited for before anything changes: if it throws, nothing does.
   */
  async learn(classes, { settle = () => {}, ...options } = {}) {
    this.kernel ??= await kernel();
    if (this.#state) this.#sums();
    const { state, report } = enough(() => taught(this.kernel, this.#state, classes, options));
    await settle();
    this.#become(state);
    return { reads: this.about.reads, ...report };
  }

  /** Refuse names that no class can have, and ask about those that are much like known ones. */
  checkNames(names, { yes = false } = {}) {
    checkNames(names, this.classes, yes);
  }

  /** Count an image as another class: one that was learned as `was`, or a new one without it. */
  async correct(features, digest, name, { was = null, yes = false, progress } = {}) {
    this.kernel ??= await kernel();
    if (!this.#state) {
      await this.learn([{ name, features: [features], digests: [digest] }], { yes, progress });
      return;
    }
    const options = { was, yes, progress };
    this.#become(enough(() => corrected(this.kernel, this.#sums(), features, digest, name, options)));
  }

  /** Take images back that were learned: [{name, features, images, digests}]. */
  async unlearn(classes, { progress } = {}) {
    this.#become(enough(() => unlearned(this.kernel, this.#sums(), classes, progress)), false);
  }

  /** Take a class out; how its images scattered stays in the sums. */
  async forget(name, { progress } = {}) {
    this.#become(enough(() => forgotten(this.kernel, this.#sums(), name, progress)), false);
  }

  async rename(from, to, { yes = false } = {}) {
    this.#become(renamed(this.#known(), from, to, yes));
  }

  /** Add what the model of another file has learned with the same encoder. */
  async merge(content, { yes = false, progress } = {}) {
    this.#sums();
    const other = await readModel(bytesOf(content), this.fits);
    this.#become(enough(() => merged(this.kernel, this.#sums(), other, yes, progress)));
  }

  /** Go back to before the last change. */
  async undo() {
    if (!this.#past) throw new Refused("Nothing is kept of the model before its last change: it stays.", { status: 409 });
    [this.#state] = this.#past;
    this.#past = null;
    this.#version += 1;
  }

  /** Refuse what was learned with another encoder. */
  fits = (about, width) => {
    checkAlike(this.about, about);
    if (this.width !== null && width !== null && width !== this.width) {
      throw new Refused("The models have features of different widths, so their sums cannot be added: use another.");
    }
  };

  #become(state, keep = true) {
    this.#past = keep ? [this.#state] : null; // what was taken out must not stay anywhere
    this.#state = state;
    this.#version += 1;
  }

  #known() {
    if (!this.#state) throw new Refused(NOTHING, { status: 409 });
    return this.#state;
  }

  #sums() {
    if (!this.#known().moments) throw new Refused(NO_SUMS);
    return this.#state;
  }

  #judging() {
    const { calibration } = this.#known();
    if (this.#judge?.calibration !== calibration) {
      const threshold = calibration.threshold(this.about.falseAlarms);
      this.#judge = { calibration, threshold, confidence: calibration.confidence() };
    }
    return this.#judge;
  }
}

const bytesOf = (content) =>
  ArrayBuffer.isView(content) ? new Uint8Array(content.buffer, content.byteOffset, content.byteLength) : new Uint8Array(content);

/** What a task gives, or a sentence where the browser has no memory for its matrices. */
function enough(task) {
  try {
    return task();
  } catch (error) {
    if (error instanceof RangeError) throw new Refused(FULL);
    throw error;
  }
}
