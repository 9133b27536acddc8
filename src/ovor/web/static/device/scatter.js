// What the sums say of the classes: their means, and how images scatter around them; and in which
// directions there is any scatter, which are few where there were few images.

import { addProduct, byRows, cholesky, product, solved, sum, transposed } from "./linear.js";

const MOST = 0.3; // of the width: with more directions than that, all of them are quicker
const NOTHING = 1e-10; // of the largest variance: what rounding leaves where there is none

export class Scatter {
  constructor(kernel, moments) {
    const { width, counts, sums } = moments;
    const classes = counts.length;
    const means = sums.map((x, i) => x / counts[Math.floor(i / width)]);
    const centre = new Float64Array(width);
    for (let i = 0; i < means.length; i += 1) centre[i % width] += means[i] / classes;
    const deviations = means.map((x, i) => x - centre[i % width]);
    Object.assign(this, { kernel, width, counts, classes, means, centre, deviations, images: moments.images });
    this.each = this.images / classes; // images of a class, on average
    this.freedom = Math.max(this.images - classes, 1); // images beyond the first of each class
    this.within = addProduct(kernel, moments.second, width, means, sums, -1);
  }

  /** How much more uncertain the class means are than if all classes were of one size. */
  get inequality() {
    const { counts, classes } = this;
    return (sum(counts) / classes) * (sum(counts.map((x) => 1 / x)) / classes);
  }

  /** The scatter with the class means in it, every class counted alike. */
  get total() {
    const { kernel, within, width, deviations, each } = this;
    return addProduct(kernel, within, width, deviations, deviations, each);
  }
}

/** All directions, as they are. */
class Everything {
  constructor(scatter, total) {
    Object.assign(this, { size: scatter.width, total, within: scatter.within });
  }

  into = (rows) => rows;
  outOf = (rows) => rows;
}

/** The directions in which images differ, by an orthonormal basis of them. */
class Span {
  constructor(scatter, rows) {
    const { kernel, width } = scatter;
    const size = rows.length / width;
    const lengths = byRows(kernel, rows, rows, size, size, width);
    Object.assign(this, { kernel, width, size, rows, factor: cholesky(kernel, lengths, size) });
    if (!this.factor) return;
    for (let i = 0; i < size; i += 1) this.factor.fill(0, i * size + i + 1, (i + 1) * size);
    const turned = transposed(this.factor, size, size);
    this.total = byRows(kernel, turned, turned, size, size, size);
    const deviations = this.into(scatter.deviations);
    this.within = addProduct(kernel, this.total, size, deviations, deviations, -scatter.each);
  }

  /** Coordinates of rows that lie in these directions. */
  into(rows) {
    const { kernel, width, size, factor } = this;
    const along = byRows(kernel, rows, this.rows, rows.length / width, size, width);
    return solved(kernel, factor, size, along, ["forward"]);
  }

  /** Rows of so many coordinates as vectors again. */
  outOf(coordinates) {
    const { kernel, width, size, factor } = this;
    const found = solved(kernel, factor, size, coordinates, ["backward"]);
    return product(kernel, found, this.rows, coordinates.length / size, width, size);
  }
}

/** The directions to solve in; `images` is how many there were, at most. */
export function directions(scatter, images) {
  const { kernel, width, total } = scatter;
  const most = Math.ceil(MOST * width);
  let largest = 0;
  for (let i = 0; i < width; i += 1) largest = Math.max(largest, total[i * width + i]);
  if (images > most || !largest) return new Everything(scatter, total);
  const rows = kernel.within(({ put, take, functions }) => {
    const found = kernel.room(Float64Array, most * width);
    const count = functions.rows_of(put(total), width, found, most, kernel.room(Float64Array, width), NOTHING * largest);
    return count > most ? null : take(Float64Array, found, count * width);
  });
  const span = rows && new Span(scatter, rows);
  return span?.factor ? span : new Everything(scatter, total);
}
