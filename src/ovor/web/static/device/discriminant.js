// The head that follows from class sums, in closed form: discriminant analysis and balanced ridge
// regression, averaged (docs/analytic.md).

import { BOTH, byRows, centred, cholesky, dot, eye, inverse, product, quadratic, solved, sum } from "./linear.js";
import { Refused } from "./errors.js";

export const SMALL_CLASS = 0.5; // images that the correction for small classes adds to each

/** Linear discriminants with one ridge, and what they would be without one of their images. */
export class Discriminant {
  constructor(scatter, space, spectrum, ridge) {
    const { kernel, classes, each, width } = scatter;
    const { size } = space;
    Object.assign(this, { scatter, space, spectrum, ridge });
    const system = space.within.slice();
    for (let i = 0; i < size; i += 1) system[i * size + i] += ridge;
    this.factor = cholesky(kernel, system, size);
    if (!this.factor) throw notLearned();
    const deviations = space.into(scatter.deviations);
    const coordinates = solved(kernel, this.factor, size, deviations, BOTH);
    this.weights = space.outOf(coordinates); // C, p
    const gram = byRows(kernel, deviations, coordinates, classes, classes, size);
    this.gram = gram.map((x, i) => (x + gram[(i % classes) * classes + Math.floor(i / classes)]) / 2);
    const overlap = byRows(kernel, coordinates, coordinates, classes, classes, size);
    const measured = eye(classes).map((x, i) => x / each + this.gram[i]);
    this.kernel = inverse(kernel, measured, classes); // how the scatter of the means shortens distances
    if (!this.kernel) throw notLearned();
    const trace = spectrum.inverses(ridge) + dot(this.kernel, overlap);
    this.leverage = Math.min(Math.max((width - ridge * trace) / scatter.freedom, 0), 0.99);
    this.noise = this.gram.map((x, i) => (x - ridge * overlap[i]) / scatter.freedom);
    this.lengths = Float64Array.from({ length: classes }, (_, c) => this.gram[c * classes + c]);
  }

  /** By how much the mean of one image misses its class, as a squared length. */
  get uncertainty() {
    return this.leverage / (1 - this.leverage);
  }

  /** C numbers an image, all that the head needs of it. */
  outputs(features) {
    const { kernel, width, classes, centre } = this.scatter;
    const apart = features.map((x, i) => x - centre[i % width]);
    return byRows(kernel, apart, this.weights, features.length / width, classes, width);
  }

  /** What the discriminants say of each image as if it had not been learned; its class has another. */
  without(features, labels) {
    const { scatter, space, gram } = this;
    const { kernel, width, classes, means, counts } = scatter;
    const outputs = this.outputs(features);
    const apart = features.map((x, i) => x - means[labels[Math.floor(i / width)] * width + (i % width)]);
    const solvedRows = solved(kernel, this.factor, space.size, space.into(apart), ["forward"]);
    return labels.map((label, i) => {
      const own = counts[label];
      const ratio = own / (own - 1);
      const before = outputs.subarray(i * classes, (i + 1) * classes);
      const shifts = before.map((x, c) => x - gram[label * classes + c]);
      const row = solvedRows.subarray(i * space.size, (i + 1) * space.size);
      const leverage = dot(row, row);
      const along = leverage + shifts[label];
      const left = Math.max(1 - ratio * leverage, 1e-6);
      const growth = ratio / left;
      const changed = before.map((x, c) => x + growth * along * shifts[c]);
      const lengths = this.lengths.map((x, c) => x + growth * shifts[c] ** 2);
      changed[label] -= along / left / (own - 1);
      lengths[label] += (leverage / (own - 1) - 2 * shifts[label]) / left / (own - 1);
      const others = counts.map((x, c) => x - (c === label ? 1 : 0));
      return { label, outputs: changed, lengths, counts: others, shifts, growth, leverage };
    });
  }
}

const notLearned = () =>
  new Refused("The sums do not add up any more, as some of these were never learned: give those that were.");

/** The average of discriminant analysis and balanced regression, both with a spread of 1. */
export class Mixture {
  constructor(discriminant) {
    const { scatter, gram, kernel: regression, noise } = discriminant;
    const { kernel, classes, counts } = scatter;
    const all = sum(counts);
    const share = counts.map((x) => x / all);
    const mean = Float64Array.from({ length: classes }, (_, i) => dot(gram, share, classes, i * classes));
    const shared = product(kernel, gram.map((x, i) => x * share[i % classes]), gram, classes, classes, classes);
    const spread = noise.map((x, i) => x + shared[i] - mean[Math.floor(i / classes)] * mean[i % classes]);
    const parts = [eye(classes), regression].map((part) => centred(part, classes));
    this.scales = parts.map((part) => {
      const size = dot(part, product(kernel, spread, part, classes, classes, classes)) / classes;
      return Math.sqrt(Math.max(size, 1e-24));
    });
    this.discriminant = discriminant;
    this.mixing = parts[0].map((x, i) => (x / this.scales[0] + parts[1][i] / this.scales[1]) / 2);
  }

  /** The part of the logits that is the same for all; what chance gives to means of few images is added back. */
  constants(lengths, counts) {
    const back = counts.map((x, c) => this.discriminant.leverage / (x + SMALL_CLASS) - lengths[c]);
    return centred(back, counts.length).map((x) => x / (4 * this.scales[0]));
  }

  /** Logits by a discriminant's outputs. */
  logits(outputs, lengths, counts) {
    const classes = outputs.length;
    const found = this.constants(lengths, counts);
    for (let i = 0; i < classes; i += 1) {
      for (let j = 0; j < classes; j += 1) found[j] += outputs[i] * this.mixing[i * classes + j];
    }
    return found;
  }

  /** The head: weights (a row a class), and constants. */
  head() {
    const { scatter, weights, lengths } = this.discriminant;
    const { kernel, classes, width, centre, counts } = scatter;
    const turned = Float64Array.from(this.mixing, (_, i) => this.mixing[(i % classes) * classes + Math.floor(i / classes)]);
    const own = product(kernel, turned, weights, classes, width, classes);
    const constants = this.logits(new Float64Array(classes), lengths, counts);
    const bias = constants.map((x, c) => x - dot(own, centre, width, c * width));
    return { weights: own, bias };
  }
}

/** The squared length of an image in the measure of the scatter with the class means in it. */
export const shortened = (left, kernel) => left.leverage - quadratic(kernel, left.shifts);
