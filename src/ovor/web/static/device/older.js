// What became of older classes in a lesson, without any image of them: logits are drawn as the sums
// let expect them, and counted. The draws are not Python's, so the numbers differ by a point or so.

import { argmax, byRows } from "./linear.js";
import { rounded } from "./rounding.js";

const DRAWS = 500; // of logits, the same for every class
const WIDEST = 6; // times what the sums say that images scatter
const HALVINGS = 12;

/** Where the logits of every class are expected. */
class Cloud {
  constructor(scatter, head) {
    const { kernel, classes, width, means, within, freedom } = scatter;
    const across = byRows(kernel, head.weights, within, classes, width, width); // which is symmetric
    const spread = byRows(kernel, across, head.weights, classes, classes, width).map((x) => x / freedom);
    const centres = byRows(kernel, means, head.weights, classes, classes, width);
    Object.assign(this, { classes, counts: scatter.counts, centres: centres.map((x, i) => x + head.bias[i % classes]) });
    this.noise = byRows(kernel, normals(DRAWS * classes), root(spread, classes), DRAWS, classes, classes);
  }

  /** Draws of the logits of new images of a class, whose mean is itself uncertain. */
  logits(row, width) {
    const { classes } = this;
    const wide = width * Math.sqrt(1 + 1 / this.counts[row]);
    return Array.from({ length: DRAWS }, (_, i) =>
      Float64Array.from({ length: classes }, (_, c) => this.centres[row * classes + c] + wide * this.noise[i * classes + c]),
    );
  }

  /** The share of a class's images that would be named right. */
  right(row, width) {
    return this.logits(row, width).filter((logits) => argmax(logits) === row).length / DRAWS;
  }
}

/** How much wider than the sums say classes scatter, by the share right of some. */
function widthBy(cloud, expected) {
  if (!expected.size) return 1;
  const mean = (values) => values.reduce((total, x) => total + x, 0) / values.length;
  const wanted = mean([...expected.values()]);
  let [low, high] = [1, WIDEST];
  for (let turn = 0; turn < HALVINGS; turn += 1) {
    const middle = (low + high) / 2;
    const found = mean([...expected.keys()].map((row) => cloud.right(row, middle)));
    if (found > wanted) low = middle;
    else high = middle;
  }
  return low;
}

/** What to expect of older classes (`rows`) now, and what they lost to the last `added` ones. */
export function olderClasses(scatter, head, names, added, expected, rows) {
  if (!rows.length) return [];
  const cloud = new Cloud(scatter, head);
  const width = widthBy(cloud, expected);
  const old = names.length - added;
  return rows.map((row) => {
    const drawn = cloud.logits(row, width);
    const now = drawn.map(argmax);
    const lost = now.filter((answer, i) => answer >= old && argmax(drawn[i].subarray(0, old)) === row);
    const often = names.map((_, name) => lost.filter((answer) => answer === name).length);
    return {
      class: names[row],
      expected: rounded((100 * now.filter((answer) => answer === row).length) / DRAWS, 1),
      lost: rounded((100 * lost.length) / DRAWS, 1),
      to: lost.length ? names[argmax(often)] : null,
    };
  });
}

/** A lower root of a matrix that may have directions without any extent. */
function root(a, n) {
  const found = new Float64Array(n * n);
  for (let i = 0; i < n; i += 1) {
    for (let j = 0; j <= i; j += 1) {
      let rest = (a[i * n + j] + a[j * n + i]) / 2;
      for (let t = 0; t < j; t += 1) rest -= found[i * n + t] * found[j * n + t];
      const tiny = 1e-12 * a[j * n + j];
      if (i === j) found[i * n + i] = rest > tiny ? Math.sqrt(rest) : 0;
      else found[i * n + j] = found[j * n + j] ? rest / found[j * n + j] : 0;
    }
  }
  return found;
}

/** So many draws of a standard normal, always the same. */
function normals(count) {
  let seed = count;
  const uniform = () => {
    seed = (seed + 0x6d2b79f5) | 0; // mulberry32
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return (((t ^ (t >>> 14)) >>> 0) + 0.5) / 2 ** 32;
  };
  return Float64Array.from({ length: count }, () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()));
}
