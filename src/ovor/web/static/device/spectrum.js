// The axes along which images differ, every class counted alike: as much of them as a head needs.
//
// In single precision, as in Python, which is enough to choose a ridge by and to tell the unknown.
// Reflections make the matrix tridiagonal; of that, sums over all axes follow without any axis.

import { dot, sum } from "./linear.js";
import { apart, eigenvalues, eigenvectors, solver } from "./tridiagonal.js";

const RIDGES = Float64Array.from({ length: 41 }, (_, i) => 10 ** (-6 + i / 4)); // of the mean variance
const FREEDOM = 0.3; // effective parameters an image, at most: cross-validation overfits above

export class Spectrum {
  /** The axes of a scatter; `told` hears the share that is done. */
  constructor(scatter, space, told = () => {}) {
    const { kernel, width } = scatter;
    const { size, total } = space;
    let trace = 0;
    for (let i = 0; i < size; i += 1) trace += total[i * size + i];
    this.scale = Math.max(trace / width, 1e-12);
    Object.assign(this, { kernel, width, space });
    const single = new Float32Array(total.length);
    for (let i = 0; i < single.length; i += 1) single[i] = total[i] / this.scale;
    this.reduce(single, told);
    this.own = eigenvalues(this.diagonal, this.beside); // of the directions, in units of the scale
    this.values = new Float64Array(width); // all, from the least to the most
    this.values.set(this.own.map((x) => Math.max(x, 0) * this.scale), width - size);
  }

  reduce(matrix, told) {
    const n = this.space.size;
    const { kernel } = this;
    kernel.within(({ put, take, functions }) => {
      const a = put(matrix);
      const [diagonal, beside] = [0, 0].map(() => kernel.room(Float64Array, n));
      const taus = kernel.room(Float32Array, n);
      const work = kernel.room(Float32Array, 128 * n);
      for (let at = 0; at < n; ) {
        at = functions.tridiagonal(a, n, at, diagonal, beside, taus, work);
        told(1 - (1 - at / n) ** 3);
      }
      this.reflections = take(Float32Array, a, n * n);
      this.taus = take(Float32Array, taus, n);
      this.diagonal = take(Float64Array, diagonal, n);
      this.beside = take(Float64Array, beside, n);
    });
  }

  /** Rows of coordinates as the tridiagonal matrix has them, or back. */
  turned(rows, back) {
    const n = this.space.size;
    return this.kernel.within(({ put, take, functions }) => {
      const x = put(new Float32Array(rows));
      functions.reflect(put(this.reflections), n, put(this.taus), x, rows.length / n, back ? 1 : 0);
      return new Float64Array(take(Float32Array, x, rows.length));
    });
  }

  /** The sum of 1 / (value + ridge) over all axes. */
  inverses(ridge) {
    return this.values.reduce((total, x) => total + 1 / (x + ridge), 0);
  }

  /** The last axes, the largest value last: a row of the full width each. */
  leading(count) {
    const n = this.space.size;
    const own = Math.min(count, n);
    const found = eigenvectors(this.diagonal, this.beside, this.own.subarray(n - own));
    const flat = new Float64Array(own * n);
    found.forEach((row, i) => flat.set(row, i * n));
    const axes = this.space.outOf(this.turned(flat, true));
    const rows = Array.from({ length: own }, (_, i) => axes.slice(i * this.width, (i + 1) * this.width));
    for (let at = 0; rows.length < count && at < this.width; at += 1) {
      const more = new Float64Array(this.width); // images differ in fewer directions: any others
      more[at] = 1;
      if (apart(more, rows) > 0.1) rows.unshift(more);
    }
    return rows;
  }
}

/** The ridge, by generalised cross-validation of the balanced regression, from the sums alone. */
export function chooseRidge(scatter, spectrum) {
  const { classes, each, images, width } = scatter;
  const { space, values, diagonal, beside } = spectrum;
  const n = space.size;
  const scale = Math.max(sum(values) / width, 1e-12);
  const along = spectrum.turned(space.into(scatter.deviations), false);
  const unit = spectrum.scale / scale; // of the tridiagonal matrix, in which ridges are not measured
  const below = Math.max(0, -spectrum.own[0]); // rounding may leave values that there cannot be
  const variance = images * (1 - 1 / classes);
  const errors = RIDGES.map((ridge) => {
    const parameters = values.reduce((total, x) => total + x / scale / (x / scale + ridge), 0);
    const solve = solver(diagonal, beside, ridge / unit + below);
    const x = new Float64Array(n);
    let [once, twice] = [0, 0];
    for (let c = 0; c < classes; c += 1) {
      const row = along.subarray(c * n, (c + 1) * n);
      solve(row, x);
      const first = dot(row, x) / unit;
      once += first;
      twice += first - (ridge * dot(x, x)) / unit ** 2;
    }
    const power = each ** 2 / scale;
    const rest = variance - 2 * power * once + power * twice;
    const room = images - 1 - parameters;
    return parameters <= FREEDOM * (images - 1) ? rest / room ** 2 : Infinity;
  });
  const best = errors.some(Number.isFinite) ? RIDGES[least(errors)] : RIDGES.at(-1);
  return Math.max(best * scale, 1e-9);
}

/** The place of the least number, or of the first that is none, as torch has it. */
function least(numbers) {
  const none = numbers.findIndex(Number.isNaN);
  return none >= 0 ? none : numbers.indexOf(Math.min(...numbers));
}
