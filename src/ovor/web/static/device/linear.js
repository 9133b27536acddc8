// Matrices in double precision, row after row, by the kernel.

const BLOCK = 32;

/** The rows become columns. */
export function transposed(a, rows, columns) {
  const found = new a.constructor(a.length);
  for (let i = 0; i < rows; i += 1) for (let j = 0; j < columns; j += 1) found[j * rows + i] = a[i * columns + j];
  return found;
}

/** Make what is above the diagonal the same as what is below; by blocks, which stay near the processor. */
function mirror(a, n) {
  for (let rows = 0; rows < n; rows += BLOCK) {
    for (let columns = 0; columns <= rows; columns += BLOCK) {
      for (let i = rows; i < Math.min(rows + BLOCK, n); i += 1) {
        for (let j = columns; j < Math.min(columns + BLOCK, i); j += 1) a[j * n + i] = a[i * n + j];
      }
    }
  }
  return a;
}

/** Add alpha x^T y, which is symmetric, to a (n, n); x and y have rows of n. */
export function addProduct(kernel, a, n, x, y, alpha = 1) {
  const rows = x.length / n;
  return kernel.within(({ put, take, functions }) => {
    const total = put(a);
    const one = put(transposed(x, rows, n));
    const other = x === y ? one : put(transposed(y, rows, n));
    functions.nt(total, n, one, rows, other, rows, n, n, rows, alpha, 1);
    return mirror(take(Float64Array, total, n * n), n);
  });
}

/** a b^T, for a (m, k) and b (n, k). */
export function byRows(kernel, a, b, m, n, k) {
  return kernel.within(({ put, take, functions }) => {
    const found = kernel.room(Float64Array, m * n);
    functions.nt(found, n, put(a), k, put(b), k, m, n, k, 1, 0);
    return take(Float64Array, found, m * n);
  });
}

/** a b, for a (m, k) and b (k, n). */
export function product(kernel, a, b, m, n, k) {
  return kernel.within(({ put, take, functions }) => {
    const found = kernel.room(Float64Array, m * n);
    functions.nn(found, n, put(a), k, put(b), n, m, n, k, 1);
    return take(Float64Array, found, m * n);
  });
}

/** The lower factor of a positive matrix, or null where it is none. */
export function cholesky(kernel, a, n) {
  return kernel.within(({ put, take, functions }) => {
    const factor = put(a);
    return functions.cholesky(factor, n) ? null : take(Float64Array, factor, n * n);
  });
}

/** What solving with a lower factor makes of the rows of b: forth, back, or both. */
export function solved(kernel, factor, n, b, ways) {
  return kernel.within(({ put, take, functions }) => {
    const [l, x] = [put(factor), put(b)];
    for (const way of ways) functions[way](l, n, x, b.length / n);
    return take(Float64Array, x, b.length);
  });
}

export const BOTH = ["forward", "backward"];

/** The inverse of a positive matrix. */
export function inverse(kernel, a, n) {
  const factor = cholesky(kernel, a, n);
  if (!factor) return null;
  const found = solved(kernel, factor, n, eye(n), BOTH);
  for (let i = 0; i < n; i += 1) {
    for (let j = 0; j < i; j += 1) found[i * n + j] = found[j * n + i] = (found[i * n + j] + found[j * n + i]) / 2;
  }
  return found;
}

export function eye(n) {
  const found = new Float64Array(n * n);
  for (let i = 0; i < n; i += 1) found[i * n + i] = 1;
  return found;
}

/** Rows with a mean of zero each. */
export function centred(a, columns) {
  const found = Float64Array.from(a);
  for (let at = 0; at < a.length; at += columns) {
    const row = found.subarray(at, at + columns);
    const mean = sum(row) / columns;
    for (let i = 0; i < columns; i += 1) row[i] -= mean;
  }
  return found;
}

export function dot(a, b, length = a.length, from = 0, other = 0) {
  let found = 0;
  for (let i = 0; i < length; i += 1) found += a[from + i] * b[other + i];
  return found;
}

export function sum(a) {
  let found = 0;
  for (const x of a) found += x;
  return found;
}

/** x^T a x for a matrix of as many rows and columns as x has entries. */
export function quadratic(a, x) {
  let found = 0;
  for (let i = 0; i < x.length; i += 1) found += x[i] * dot(a, x, x.length, i * x.length, 0);
  return found;
}

/** The place of the largest number; of several, the first. */
export function argmax(a) {
  let best = 0;
  for (let i = 1; i < a.length; i += 1) if (a[i] > a[best]) best = i;
  return best;
}
