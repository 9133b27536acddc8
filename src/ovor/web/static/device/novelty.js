// How strange an image is: how far from the nearest class, less how far from all, and how little any
// class claims it (learners/novelty.py).

import { byRows, centred, dot, product, sum } from "./linear.js";
import { logSum } from "./calibration.js";
import { Mixture, shortened, SMALL_CLASS } from "./discriminant.js";
import { fromHalf, toHalf } from "./half.js";

const AXES = 64; // leading directions that say how usual an image is,
const LEADING = 0.1; // and their weight
const FOR_AN_AXIS = 4; // images, or the directions would follow single ones
const OTHERS = 0.3; // weight of the other directions at most,
const ENOUGH = 40; // and up to so many parameters
export const DOUBT = 3; // weight of how little the classes claim an image, beside its distance

export class Novelty {
  /**
   * Parts: weights (C, p), centre, offsets, kernel (C, C), axes (A, p), leading, others, level, scale; and of
   * logits gains (2), constants (C), their energy as claimed, and its weight, doubt: 0 in older models.
   */
  constructor(parts) {
    Object.assign(this, parts);
  }

  /** What tells the unknown by discriminants. */
  static of(discriminant, doubt = DOUBT) {
    const { scatter, spectrum, gram, kernel, ridge } = discriminant;
    const { classes, counts, images, width } = scatter;
    const measure = spectrum.values.map((x) => 1 / (x + ridge));
    const there = Math.min(AXES, width);
    const axes = Math.max(1, Math.min(there, Math.floor(images / FOR_AN_AXIS)));
    const leading = new Float64Array(there);
    for (let i = 0; i < axes; i += 1) leading[there - 1 - i] = LEADING * measure[width - 1 - i];
    const parameters = Math.max(discriminant.leverage * scatter.freedom, 1);
    let others = 0;
    if (width > axes) {
      others = (Math.min(OTHERS, (ENOUGH / parameters) ** 2) * sum(measure.subarray(0, width - axes))) / (width - axes);
    }
    const usual = spectrum.values.map((x, i) => {
      const place = i - (width - axes);
      return (x / images) * (place < 0 ? others : leading[there - axes + place]);
    });
    const noise = discriminant.noise.map((x) => x / (1 - discriminant.leverage) ** 2);
    const turned = product(scatter.kernel, kernel, gram, classes, classes, classes);
    const slopes = turned.map((x, i) => 2 * ((i % (classes + 1) ? 0 : 1) - x));
    const noisy = product(scatter.kernel, noise, slopes, classes, classes, classes);
    const spread = dot(slopes, noisy) / classes + 2 * dot(usual, usual);
    const chance = counts.map((x) => discriminant.uncertainty / x);
    const all = sum(counts);
    const among = product(scatter.kernel, gram, kernel, classes, classes, classes);
    let level = dot(kernel, noise) + sum(usual);
    for (let c = 0; c < classes; c += 1) {
      const own = chance[c] - discriminant.lengths[c] + dot(among, gram, classes, c * classes, c * classes);
      level += (counts[c] / all) * own;
    }
    // As many rows as ever, so that no number of images is in the shapes of a file.
    const directions = new Float64Array(there * width);
    spectrum.leading(axes).forEach((row, i) => directions.set(row, (there - axes + i) * width));
    const mixture = new Mixture(discriminant);
    const together = Math.sqrt(1 + doubt ** 2);
    const { claimed, unequal } = energies(mixture, counts.map((x) => x / all), noise);
    return new Novelty({
      weights: asKept(discriminant.weights, width),
      centre: scatter.centre,
      offsets: discriminant.lengths.map((x, c) => x - chance[c]),
      kernel,
      axes: asKept(directions, width),
      leading,
      others,
      level,
      scale: Math.sqrt(Math.max(spread, 1e-24)) * together,
      gains: mixture.scales.map((x) => 1 / (2 * x)),
      constants: mixture.constants(discriminant.lengths, counts),
      claimed,
      doubt: doubt / together / unequal,
    });
  }

  /** A number an image, larger the less it belongs to any class. */
  distances(kernel, features) {
    const { centre, weights, offsets, constants } = this;
    const [width, classes] = [centre.length, offsets.length];
    const apart = new Float64Array(features).map((x, i) => x - centre[i % width]);
    const count = apart.length / width;
    const outputs = byRows(kernel, apart, weights, count, classes, width);
    const unusual = this.unusual(kernel, apart);
    return unusual.map((far, i) => this.combined(outputs.subarray(i * classes, (i + 1) * classes), offsets, constants, far));
  }

  /** The distances of learned images as if each had not been learned. */
  without(discriminant, features, labels, lefts = discriminant.without(features, labels)) {
    const { scatter, spectrum, gram } = discriminant;
    const { classes, width } = scatter;
    const apart = features.map((x, i) => x - this.centre[i % width]);
    const unusual = this.unusual(scatter.kernel, apart, spectrum);
    return lefts.map((left, i) => {
      const { label, shifts, growth, counts } = left;
      const turned = shifts.map((_, c) => dot(shifts, this.kernel, classes, 0, c * classes));
      const crossed = dot(turned, left.outputs) ** 2 * growth;
      let less = crossed / (1 + growth * dot(turned, shifts));
      // The mean of all classes moves away from the image too, by a share of its class's step.
      const own = shortened(left, discriminant.kernel);
      const across = shifts[label] - dot(turned, gram, classes, 0, label * classes);
      less += (2 * (own + across)) / Math.max(1 - own, 1e-3) / (classes * counts[label]);
      const offsets = left.lengths.map((x, c) => x - discriminant.uncertainty / counts[c]);
      const back = left.lengths.map((x, c) => discriminant.leverage / (counts[c] + SMALL_CLASS) - x);
      const constants = centred(back, classes).map((x) => (x * this.gains[0]) / 2); // as `Mixture` has them
      return this.combined(left.outputs, offsets, constants, unusual[i] - less);
    });
  }

  /** How far images are from all, a weighted sum of squares; `learned` are the axes if they were. */
  unusual(kernel, apart, learned = null) {
    const { axes, leading, others, centre } = this;
    const [width, count] = [centre.length, leading.length];
    const along = byRows(kernel, apart, axes, apart.length / width, count, width).map((x) => x * x);
    return Array.from({ length: apart.length / width }, (_, i) => {
      const squares = along.subarray(i * count, (i + 1) * count);
      let across = dot(apart, apart, width, i * width, i * width) - sum(squares);
      if (learned) {
        let shares = 0;
        for (let a = 0; a < count; a += 1) shares += squares[a] / Math.max(learned.values[width - count + a], 1e-12);
        across /= Math.max(1 - shares, 0.1) ** 2;
      }
      return dot(squares, leading) + others * across;
    });
  }

  combined(outputs, offsets, constants, unusual) {
    const { kernel, gains } = this;
    const classes = outputs.length;
    const turned = outputs.map((_, c) => dot(outputs, kernel, classes, 0, c * classes)); // the kernel is symmetric
    const nearest = Math.min(...offsets.map((x, c) => x - 2 * outputs[c]));
    const far = (nearest + dot(turned, outputs) + unusual - this.level) / this.scale;
    const logits = centred(outputs.map((x, c) => gains[0] * x + gains[1] * turned[c]), classes).map((x, c) => x + constants[c]);
    return far + this.doubt * (this.claimed - logSum(logits));
  }
}

/** The energy of the logits that the sums let expect of known images, and its spread. */
function energies(mixture, share, noise) {
  const { gram, lengths, scatter } = mixture.discriminant;
  const { kernel, classes, counts } = scatter;
  const rows = Array.from({ length: classes }, (_, c) => gram.subarray(c * classes, (c + 1) * classes));
  const logits = rows.map((row) => mixture.logits(row, lengths, counts));
  const energy = logits.map(logSum);
  const shares = new Float64Array(classes * classes).map((_, i) => {
    const c = Math.floor(i / classes);
    return Math.exp(logits[c][i % classes] - energy[c]);
  });
  const slopes = byRows(kernel, shares, mixture.mixing, classes, classes, classes);
  const moved = byRows(kernel, slopes, noise, classes, classes, classes); // the noise is symmetric
  const claimed = dot(share, energy);
  const square = energy.map((x, c) => dot(moved, slopes, classes, c * classes, c * classes) + (x - claimed) ** 2);
  return { claimed, unequal: Math.sqrt(Math.max(dot(share, square), 1e-12)) };
}

/** Rows in half precision, and the scales by which they keep its range. */
export function halved(rows, width) {
  const halves = new Uint16Array(rows.length);
  const scales = new Float64Array(rows.length / width);
  for (let r = 0; r < scales.length; r += 1) {
    const row = rows.subarray(r * width, (r + 1) * width);
    scales[r] = Math.max(row.reduce((most, x) => Math.max(most, Math.abs(x)), 0), 1e-300);
    for (let i = 0; i < width; i += 1) halves[r * width + i] = toHalf(row[i] / scales[r]);
  }
  return { halves, scales };
}

/** Rows in double precision again. */
export const whole = ({ halves, scales }, width) =>
  new Float64Array(halves).map((x, i) => fromHalf(x) * scales[Math.floor(i / width)]);

/** What a file keeps of rows; a model must say the same after it was saved. */
const asKept = (rows, width) => whole(halved(rows, width), width);
