// Exact class sums: all that is kept of the images, whatever their order and however many.
//
// Features are rounded to steps of 1/32, and sums of such numbers have no rounding error in double
// precision: so the sums are those that Python has of the same features, to the last bit.

import { addProduct, sum } from "./linear.js";
import { nearest } from "./rounding.js";

export const FEATURE_STEPS = 32;
export const WEIGHT_STEPS = 256;
export const SUM_STEPS = FEATURE_STEPS * WEIGHT_STEPS;
export const SECOND_STEPS = FEATURE_STEPS ** 2 * WEIGHT_STEPS;

/** Features on the grid on which sums are exact. */
export const onGrid = (features) => new Float64Array(features).map((x) => nearest(x * FEATURE_STEPS) / FEATURE_STEPS);

/** Counts and feature sums of every class, and one second moment of all images. Never changed in place. */
export class Moments {
  constructor(width, { counts, sums, second, gone }) {
    Object.assign(this, { width, counts, sums, second, gone });
  }

  static empty(width, classes = 0) {
    return new Moments(width, {
      counts: new Float64Array(classes),
      sums: new Float64Array(classes * width),
      second: new Float64Array(width * width),
      gone: new Float64Array(2),
    });
  }

  /** How many images the second moment is from, classes that are gone included. */
  get images() {
    return sum(this.counts) + this.gone[1];
  }

  with(parts) {
    return new Moments(this.width, { ...this, ...parts });
  }

  /** The same with room for more classes, of which no image is known. */
  grown(classes) {
    const counts = new Float64Array(this.counts.length + classes);
    const sums = new Float64Array(this.sums.length + classes * this.width);
    counts.set(this.counts);
    sums.set(this.sums);
    return this.with({ counts, sums });
  }

  /** The sums with images of these rows, on the grid and one after the other; negative weights take them back. */
  plusImages(kernel, features, rows, weights = null) {
    const { width } = this;
    const [counts, sums] = [this.counts.slice(), this.sums.slice()];
    const weighted = weights ? features.map((x, i) => x * weights[Math.floor(i / width)]) : features;
    rows.forEach((row, i) => {
      counts[row] += weights ? weights[i] : 1;
      for (let j = 0; j < width; j += 1) sums[row * width + j] += weighted[i * width + j];
    });
    const second = addProduct(kernel, this.second, width, features, weighted);
    return this.with({ counts, sums, second });
  }

  /** The sums of both; class i of the other is class rows[i] here. */
  plus(other, rows) {
    const { width } = this;
    const [counts, sums] = [this.counts.slice(), this.sums.slice()];
    rows.forEach((row, i) => {
      counts[row] += other.counts[i];
      for (let j = 0; j < width; j += 1) sums[row * width + j] += other.sums[i * width + j];
    });
    const second = this.second.map((x, i) => x + other.second[i]);
    return this.with({ counts, sums, second, gone: this.gone.map((x, i) => x + other.gone[i]) });
  }

  /** The sums with an image (on the grid) as another class than it was; what is of all stays. */
  moved(features, from, to) {
    const { width } = this;
    const [counts, sums] = [this.counts.slice(), this.sums.slice()];
    counts[from] -= 1;
    counts[to] += 1;
    for (let j = 0; j < width; j += 1) {
      sums[from * width + j] -= features[j];
      sums[to * width + j] += features[j];
    }
    return this.with({ counts, sums });
  }

  /** The same without a class; how its images scatter around their mean stays, unless none is left. */
  without(row) {
    const { width } = this;
    const count = this.counts[row];
    const own = this.sums.slice(row * width, (row + 1) * width);
    const counts = this.counts.filter((_, i) => i !== row);
    const sums = new Float64Array(this.sums.length - width);
    sums.set(this.sums.subarray(0, row * width));
    sums.set(this.sums.subarray((row + 1) * width), row * width);
    if (!count) return this.with({ counts, sums }); // taken back image by image
    const second = this.second.slice();
    for (let i = 0; i < width; i += 1) {
      for (let j = 0; j < width; j += 1) {
        second[i * width + j] -= nearest(((own[i] * own[j]) / count) * SECOND_STEPS) / SECOND_STEPS;
      }
    }
    return this.with({ counts, sums, second, gone: Float64Array.of(this.gone[0] + 1, this.gone[1] + count) });
  }

  /** The second moment once: what is on and above the diagonal. */
  get upper() {
    const { width, second } = this;
    const found = new Float64Array((width * (width + 1)) / 2);
    for (let i = 0, at = 0; i < width; at += width - i, i += 1) {
      found.set(second.subarray(i * width + i, (i + 1) * width), at);
    }
    return found;
  }

  /** What `upper` was made from. */
  static secondOf(upper, width) {
    const second = new Float64Array(width * width);
    for (let i = 0, at = 0; i < width; i += 1) {
      for (let j = i; j < width; j += 1, at += 1) second[i * width + j] = second[j * width + i] = upper[at];
    }
    return second;
  }
}
