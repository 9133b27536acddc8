// Scaling as Pillow does it, to the same bytes: each pixel of the result is a weighted mean of those
// under a filter as wide as the scale asks for, in two passes, in whole numbers.

const BITS = 22; // of a weight, after the point: sums of 255 times a weight stay within 32 bits
const ONE = 2 ** BITS;
const HALF = 2 ** (BITS - 1);

const FILTERS = {
  bilinear: { support: 1, at: (x) => Math.max(0, 1 - Math.abs(x)) },
  bicubic: { support: 2, at: cubic },
};

function cubic(x) {
  const a = -0.5;
  const d = Math.abs(x);
  if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return (((d - 5) * d + 8) * d - 4) * a;
  return 0;
}

/** For each place from `first` on, `count` of them: where its pixels begin, and their weights. */
function weights(from, to, filter, first, count) {
  const scale = from / to;
  const wide = Math.max(1, scale);
  const support = filter.support * wide;
  const found = [];
  for (let place = first; place < first + count; place += 1) {
    const centre = (place + 0.5) * scale;
    const start = Math.max(0, Math.trunc(centre - support + 0.5));
    const end = Math.min(from, Math.trunc(centre + support + 0.5));
    const each = new Float64Array(end - start);
    let sum = 0;
    for (let i = 0; i < each.length; i += 1) {
      each[i] = filter.at((i + start - centre + 0.5) * (1 / wide));
      sum += each[i];
    }
    const whole = Int32Array.from(each, (w) => {
      const share = sum === 0 ? w : w / sum;
      return Math.trunc(share < 0 ? share * ONE - 0.5 : share * ONE + 0.5);
    });
    found.push({ start, whole });
  }
  return found;
}

const clipped = (sum) => {
  const value = sum >> BITS;
  return value < 0 ? 0 : value > 255 ? 255 : value;
};

/**
 * A part of an image that is scaled to `wide` x `high`, from (left, top) on, `size` pixels square.
 * `pixels` has red, green and blue bytes, row by row; so has the result.
 */
export function scaledPart({ pixels, width, height }, [wide, high], [left, top], size, interpolation) {
  const filter = FILTERS[interpolation];
  const rows = high === height ? null : weights(height, high, filter, top, size);
  const first = rows ? rows[0].start : top;
  const last = rows ? rows.at(-1).start + rows.at(-1).whole.length : top + size;
  const across = acrossRows(pixels, width, [first, last], wide, [left, size], filter);
  return rows ? downColumns(across, first, rows, size) : across;
}

/** The first pass: rows `first` to `last` of the image, with only those columns that are asked for. */
function acrossRows(pixels, width, [first, last], wide, [left, size], filter) {
  const found = new Uint8Array((last - first) * size * 3);
  if (wide === width) {
    for (let y = first; y < last; y += 1) {
      const at = 3 * (y * width + left);
      found.set(pixels.subarray(at, at + 3 * size), 3 * (y - first) * size);
    }
    return found;
  }
  const columns = weights(width, wide, filter, left, size);
  let to = 0;
  for (let y = first; y < last; y += 1) {
    for (const { start, whole } of columns) {
      let [red, green, blue] = [HALF, HALF, HALF];
      let at = 3 * (y * width + start);
      for (let i = 0; i < whole.length; i += 1, at += 3) {
        const weight = whole[i];
        red += pixels[at] * weight;
        green += pixels[at + 1] * weight;
        blue += pixels[at + 2] * weight;
      }
      found[to] = clipped(red);
      found[to + 1] = clipped(green);
      found[to + 2] = clipped(blue);
      to += 3;
    }
  }
  return found;
}

/** The second pass, on what the first one has made from row `first` on. */
function downColumns(across, first, rows, size) {
  const line = 3 * size;
  const found = new Uint8Array(line * size);
  const sums = new Float64Array(line);
  rows.forEach(({ start, whole }, y) => {
    sums.fill(HALF);
    for (let i = 0; i < whole.length; i += 1) {
      const weight = whole[i];
      const at = (start - first + i) * line;
      for (let x = 0; x < line; x += 1) sums[x] += across[at + x] * weight;
    }
    for (let x = 0; x < line; x += 1) found[y * line + x] = clipped(sums[x]);
  });
  return found;
}
