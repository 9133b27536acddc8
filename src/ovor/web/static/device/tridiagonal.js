// What a symmetric tridiagonal matrix tells in so many steps as it has rows.

const CLOSE = 2.3e-16;

/** Its eigenvalues, from the least to the most (implicit QL). */
export function eigenvalues(diagonal, beside) {
  const n = diagonal.length;
  const d = Float64Array.from(diagonal);
  const e = Float64Array.from(beside);
  e[n - 1] = 0;
  for (let l = 0; l < n; l += 1) {
    for (let turns = 0; turns < 100; turns += 1) {
      let m = l;
      while (m < n - 1 && Math.abs(e[m]) > CLOSE * (Math.abs(d[m]) + Math.abs(d[m + 1]))) m += 1;
      if (m === l) break;
      chase(d, e, l, m);
    }
  }
  return d.sort();
}

/** One sweep of rotations between two rows. */
function chase(d, e, l, m) {
  const half = (d[l + 1] - d[l]) / (2 * e[l]);
  let g = d[m] - d[l] + e[l] / (half + Math.sign(half || 1) * Math.sqrt(half * half + 1));
  let [s, c, p] = [1, 1, 0];
  for (let i = m - 1; i >= l; i -= 1) {
    const f = s * e[i];
    const b = c * e[i];
    const r = Math.sqrt(f * f + g * g);
    e[i + 1] = r;
    if (r === 0) {
      d[i + 1] -= p;
      e[m] = 0;
      return;
    }
    s = f / r;
    c = g / r;
    g = d[i + 1] - p;
    const t = (d[i] - g) * s + 2 * c * b;
    p = s * t;
    d[i + 1] = g + p;
    g = c * t - b;
  }
  d[l] -= p;
  e[l] = g;
  e[m] = 0;
}

/** Solve (matrix + shift) x = b for a positive matrix; `x` gets the result. */
export function solver(diagonal, beside, shift) {
  const n = diagonal.length;
  const pivots = new Float64Array(n);
  const factors = new Float64Array(n);
  pivots[0] = diagonal[0] + shift;
  for (let i = 1; i < n; i += 1) {
    factors[i] = beside[i - 1] / pivots[i - 1];
    pivots[i] = diagonal[i] + shift - factors[i] * beside[i - 1];
  }
  return (b, x) => {
    x[0] = b[0];
    for (let i = 1; i < n; i += 1) x[i] = b[i] - factors[i] * x[i - 1];
    x[n - 1] /= pivots[n - 1];
    for (let i = n - 2; i >= 0; i -= 1) x[i] = x[i] / pivots[i] - factors[i + 1] * x[i + 1];
    return x;
  };
}

/** Eigenvectors of some eigenvalues, a row each, by inverse iteration; close ones are kept apart. */
export function eigenvectors(diagonal, beside, values) {
  const n = diagonal.length;
  const size = diagonal.reduce((most, x, i) => Math.max(most, Math.abs(x) + Math.abs(beside[i])), 1e-30);
  const found = [];
  let last = -Infinity;
  let seed = 1;
  for (const value of values) {
    const at = Math.max(value, last + 4 * CLOSE * size); // equal ones would give the same vector
    last = at;
    const solve = pivoted(diagonal, beside, at, CLOSE * size);
    let x = Float64Array.from({ length: n }, () => {
      seed = (seed * 48271) % 2147483647;
      return seed / 2147483647 - 0.5;
    });
    for (let turn = 0; turn < 3; turn += 1) {
      x = solve(x);
      apart(x, found);
    }
    found.push(x);
  }
  return found;
}

/** Make a row of length 1 that has nothing of the others; returns how much of it that was. */
export function apart(x, others) {
  const before = norm(x);
  for (const other of others) {
    let along = 0;
    for (let i = 0; i < x.length; i += 1) along += x[i] * other[i];
    for (let i = 0; i < x.length; i += 1) x[i] -= along * other[i];
  }
  const left = norm(x);
  for (let i = 0; i < x.length; i += 1) x[i] /= left || 1;
  return left / before;
}

function norm(x) {
  let found = 0;
  for (const part of x) found += part * part;
  return Math.sqrt(found);
}

/** Solve with rows in the order of size, for a matrix that is nearly singular. */
function pivoted(diagonal, beside, value, least) {
  const n = diagonal.length;
  const [a, b, c, swapped] = [0, 0, 0, 0].map(() => new Float64Array(n)); // pivots, and two diagonals beside
  const factors = new Float64Array(n);
  let [here, next] = [diagonal[0] - value, n > 1 ? beside[0] : 0];
  for (let i = 0; i < n - 1; i += 1) {
    const below = beside[i];
    const [after, further] = [diagonal[i + 1] - value, i + 2 < n ? beside[i + 1] : 0];
    if (Math.abs(here) >= Math.abs(below)) {
      a[i] = here || least;
      b[i] = next;
      factors[i] = below / a[i];
      here = after - factors[i] * next;
      next = further;
    } else {
      swapped[i] = 1;
      a[i] = below;
      b[i] = after;
      c[i] = further;
      factors[i] = here / below;
      here = next - factors[i] * after;
      next = -factors[i] * further;
    }
  }
  a[n - 1] = Math.abs(here) > least ? here : least;
  return (given) => {
    const x = given.slice();
    for (let i = 0; i < n - 1; i += 1) {
      if (swapped[i]) [x[i], x[i + 1]] = [x[i + 1], x[i]];
      x[i + 1] -= factors[i] * x[i];
    }
    for (let i = n - 1; i >= 0; i -= 1) {
      const later = (i + 1 < n ? b[i] * x[i + 1] : 0) + (i + 2 < n ? c[i] * x[i + 2] : 0);
      x[i] = (x[i] - later) / a[i];
    }
    return x;
  };
}
