// What leave-one-out says of a model's own images: how sure to be, and what is too far away.
// Two histograms are kept of it; docs/analytic.md says what a lesson adds to them.

import { argmax, sum } from "./linear.js";

const KEPT_DISTANCES = 25; // images
const KEPT_ANSWERS = 200;
const TEMPERATURE = 0.6; // of the softmax that the odds are from
const PRIOR = 4; // images' worth of believing those odds as they are
const BOUNDS = evenly(-20, 20, 801); // of the bins of distances
const ODDS = evenly(-8, 16, 97); // of the bins of log-odds
export const BINS = { distances: BOUNDS.length + 1, answers: ODDS.length + 1, right: ODDS.length + 1 };

function evenly(from, to, count) {
  const step = (to - from) / (count - 1);
  return Float64Array.from({ length: count }, (_, i) => (2 * i < count ? from + step * i : to - step * (count - 1 - i)));
}

/** Histograms of how images of known classes were judged. */
export class Calibration {
  constructor(distances, answers, right) {
    Object.assign(this, { distances, answers, right });
  }

  static empty() {
    return new Calibration(...Object.values(BINS).map((count) => new Float64Array(count)));
  }

  plus(other, far = 1, sure = 1) {
    const both = (name, share) => this[name].map((x, i) => share * x + other[name][i]);
    return new Calibration(both("distances", far), both("answers", sure), both("right", sure));
  }

  withoutDistances() {
    return new Calibration(this.distances.map(() => 0), this.answers, this.right);
  }

  /** The histograms after more images were judged; `old` is the share of images that there were before. */
  withLesson(distances, logits, labels, weights, old) {
    const far = old ** 2 * Math.min(1, KEPT_DISTANCES / Math.max(sum(this.distances), 1e-9));
    const sure = old ** 2 * Math.min(1, KEPT_ANSWERS / Math.max(sum(this.answers), 1e-9));
    const added = Calibration.empty();
    distances.forEach((distance, i) => {
      added.distances[firstAtLeast(BOUNDS, distance)] += weights[i];
      const bin = firstAtLeast(ODDS, logOdds(logits[i]).odds);
      added.answers[bin] += weights[i];
      if (argmax(logits[i]) === labels[i]) added.right[bin] += weights[i];
    });
    return this.plus(added, far, sure);
  }

  /** The distance beyond which lies that share of images of known classes. */
  threshold(falseAlarms) {
    if (!this.distances.some((x) => x !== 0)) return BOUNDS.at(-1);
    const upTo = (i) => (i < 0 ? 0 : i < BOUNDS.length ? normal(BOUNDS[i]) : 1);
    const total = this.distances.map((x, i) => x + (upTo(i) - upTo(i - 1))); // and a little of what to expect
    const images = sum(total);
    const wanted = Math.min((images + 1) * (1 - falseAlarms), images);
    let below = 0;
    let number = 0;
    while (number < total.length && below + total[number] < wanted - 1e-9) {
      below += total[number];
      number += 1;
    }
    if (number === 0) return BOUNDS[0];
    if (number >= BOUNDS.length) return BOUNDS.at(-1);
    const into = (wanted - below) / Math.max(total[number], 1e-12);
    return BOUNDS[number - 1] + into * (BOUNDS[number] - BOUNDS[number - 1]);
  }

  /** Offset and slope of the log-odds that the likeliest class is right: logistic regression. */
  confidence() {
    const middles = [ODDS[0], ...Array.from(ODDS.subarray(1), (x, i) => (x + ODDS[i]) / 2), ODDS.at(-1)];
    const cost = (a, b) => {
      let found = (PRIOR / 2) * (a * a + (b - 1) ** 2);
      middles.forEach((x, i) => {
        const odds = a + b * x;
        found -= this.right[i] * odds - this.answers[i] * softplus(odds);
      });
      return found;
    };
    let [a, b] = [0, 1];
    for (let turn = 0; turn < 30; turn += 1) {
      const [down, across] = this.step(middles, a, b);
      let length = 1;
      while (length > 1e-6 && cost(a + length * down, b + length * across) > cost(a, b)) length /= 2;
      a += length * down;
      b += length * across;
      if (Math.max(Math.abs(down), Math.abs(across)) < 1e-10) break;
    }
    return { offset: a, slope: Math.max(b, 0.05) };
  }

  /** A step of Newton's method. */
  step(middles, a, b) {
    let [s0, s1] = [-PRIOR * a, -PRIOR * (b - 1)];
    let [h00, h01, h11] = [PRIOR, 0, PRIOR];
    middles.forEach((x, i) => {
      const share = 1 / (1 + Math.exp(-(a + b * x)));
      const rest = this.right[i] - this.answers[i] * share;
      const bend = this.answers[i] * share * (1 - share);
      s0 += rest;
      s1 += rest * x;
      h00 += bend;
      h01 += bend * x;
      h11 += bend * x * x;
    });
    const size = h00 * h11 - h01 * h01;
    return [(s0 * h11 - s1 * h01) / size, (s1 * h00 - s0 * h01) / size];
  }
}

/** Probabilities whose largest is right as often as it says; the order of the classes stays. */
export function calibrated(logits, { offset, slope }) {
  if (logits.length === 1) return Float64Array.of(1);
  const { best, odds } = logOdds(logits);
  const among = logits.map((x, c) => (c === best ? -Infinity : (slope / TEMPERATURE) * x));
  const all = logSum(among);
  const shares = among.map((x) => x - all);
  const sure = Math.max(offset + slope * odds, Math.max(...shares) + 1e-3);
  const logs = shares.map((x, c) => (c === best ? -softplus(-sure) : x - softplus(sure)));
  const whole = logSum(logs);
  return logs.map((x) => Math.exp(x - whole));
}

/** The likeliest class by the fixed temperature, and its log-odds. */
function logOdds(logits) {
  const best = argmax(logits);
  const scaled = logits.map((x) => x / TEMPERATURE);
  const others = scaled.filter((_, c) => c !== best);
  return { best, odds: scaled[best] - (others.length ? logSum(others) : -Infinity) };
}

/** The logarithm of the sum of the exponentials of numbers. */
export function logSum(values) {
  const most = Math.max(...values);
  if (!Number.isFinite(most)) return most;
  return most + Math.log(sum(values.map((x) => Math.exp(x - most))));
}

const softplus = (x) => (x > 0 ? x + Math.log1p(Math.exp(-x)) : Math.log1p(Math.exp(x)));

/** The place of the first number that is at least so large. */
function firstAtLeast(sorted, x) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The share of a standard normal up to x. */
function normal(x) {
  const z = Math.abs(x) / Math.SQRT2;
  const tail = z < 3 ? (1 - nearErf(z)) / 2 : farErfc(z) / 2;
  return x < 0 ? tail : 1 - tail;
}

function nearErf(z) {
  let [term, total] = [z, z];
  for (let k = 1; Math.abs(term) > 1e-17 * total && k < 200; k += 1) {
    term *= (-z * z) / k;
    total += term / (2 * k + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * total;
}

function farErfc(z) {
  let fraction = z; // by its continued fraction, from far down
  for (let k = 60; k > 0; k -= 1) fraction = z + k / 2 / fraction;
  return Math.exp(-z * z) / Math.sqrt(Math.PI) / fraction;
}
