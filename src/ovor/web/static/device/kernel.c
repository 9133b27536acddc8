// The few loops of solving for a head that take the time, for WebAssembly with 128-bit vectors.
// Matrices are row after row. `make kernel` compiles it; kernel.js calls it.

#include <wasm_simd128.h>

#define EXPORT(name) __attribute__((export_name(#name)))
#define BLOCK 64   // rows or columns of a block: two of them stay near the processor
#define PANEL 32   // reflections that are applied to the rest of a matrix together

typedef double f64;
typedef float f32;

static inline v128_t at64(const f64 *x) { return wasm_v128_load(x); }
static inline v128_t at32(const f32 *x) { return wasm_v128_load(x); }
static inline v128_t muladd64(v128_t sum, v128_t a, v128_t b) { return wasm_f64x2_add(sum, wasm_f64x2_mul(a, b)); }
static inline v128_t muladd32(v128_t sum, v128_t a, v128_t b) { return wasm_f32x4_add(sum, wasm_f32x4_mul(a, b)); }
static inline v128_t mulsub32(v128_t sum, v128_t a, v128_t b) { return wasm_f32x4_sub(sum, wasm_f32x4_mul(a, b)); }
static inline f64 both(v128_t x) { return wasm_f64x2_extract_lane(x, 0) + wasm_f64x2_extract_lane(x, 1); }
static inline f32 all4(v128_t x) {
  return wasm_f32x4_extract_lane(x, 0) + wasm_f32x4_extract_lane(x, 1) + wasm_f32x4_extract_lane(x, 2) + wasm_f32x4_extract_lane(x, 3);
}
static inline int least(int a, int b) { return a < b ? a : b; }
static inline f64 root64(f64 x) { return __builtin_sqrt(x); }

static f64 dot(const f64 *a, const f64 *b, int k) {
  v128_t s = wasm_f64x2_splat(0), t = s;
  int i = 0;
  for (; i + 4 <= k; i += 4) {
    s = muladd64(s, at64(a + i), at64(b + i));
    t = muladd64(t, at64(a + i + 2), at64(b + i + 2));
  }
  f64 sum = both(wasm_f64x2_add(s, t));
  for (; i < k; i++) sum += a[i] * b[i];
  return sum;
}

// Four rows by two: c += alpha a b^T.
static void tile(f64 *c, int ldc, const f64 *a, int lda, const f64 *b, int ldb, int k, f64 alpha) {
  const f64 *a1 = a + lda, *a2 = a1 + lda, *a3 = a2 + lda, *b1 = b + ldb;
  v128_t s00 = wasm_f64x2_splat(0), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00, s30 = s00, s31 = s00;
  int i = 0;
  for (; i + 2 <= k; i += 2) {
    v128_t x = at64(b + i), y = at64(b1 + i), r;
    r = at64(a + i), s00 = muladd64(s00, r, x), s01 = muladd64(s01, r, y);
    r = at64(a1 + i), s10 = muladd64(s10, r, x), s11 = muladd64(s11, r, y);
    r = at64(a2 + i), s20 = muladd64(s20, r, x), s21 = muladd64(s21, r, y);
    r = at64(a3 + i), s30 = muladd64(s30, r, x), s31 = muladd64(s31, r, y);
  }
  f64 sums[8] = {both(s00), both(s01), both(s10), both(s11), both(s20), both(s21), both(s30), both(s31)};
  if (i < k) {
    sums[0] += a[i] * b[i], sums[1] += a[i] * b1[i], sums[2] += a1[i] * b[i], sums[3] += a1[i] * b1[i];
    sums[4] += a2[i] * b[i], sums[5] += a2[i] * b1[i], sums[6] += a3[i] * b[i], sums[7] += a3[i] * b1[i];
  }
  for (int r = 0; r < 4; r++) c[r * ldc] += alpha * sums[2 * r], c[r * ldc + 1] += alpha * sums[2 * r + 1];
}

// c (m, n) += alpha a (m, k) b (n, k)^T; where `lower` is set what is above the diagonal may be left.
EXPORT(nt) void nt(f64 *c, int ldc, const f64 *a, int lda, const f64 *b, int ldb, int m, int n, int k, f64 alpha, int lower) {
  for (int from = 0; from < k; from += 4 * BLOCK) {
    int depth = least(4 * BLOCK, k - from);
    for (int rows = 0; rows < m; rows += BLOCK) {
      int upto = least(rows + BLOCK, m), width = lower ? least(upto, n) : n;
      for (int j = 0; j < width; j += 2)
        for (int i = rows; i < upto; i += 4)
          if (j + 2 <= width && i + 4 <= upto)
            tile(c + i * ldc + j, ldc, a + i * lda + from, lda, b + j * ldb + from, ldb, depth, alpha);
          else
            for (int r = i; r < least(i + 4, upto); r++)
              for (int s = j; s < least(j + 2, width); s++)
                c[r * ldc + s] += alpha * dot(a + r * lda + from, b + s * ldb + from, depth);
    }
  }
}

// c (m, n) += alpha a (m, k) b (k, n)
EXPORT(nn) void nn(f64 *c, int ldc, const f64 *a, int lda, const f64 *b, int ldb, int m, int n, int k, f64 alpha) {
  for (int columns = 0; columns < n; columns += 8 * BLOCK) {
    int upto = least(columns + 8 * BLOCK, n);
    for (int i = 0; i < m; i++)
      for (int t = 0; t < k; t++) {
        f64 factor = alpha * a[i * lda + t];
        v128_t f = wasm_f64x2_splat(factor);
        f64 *to = c + i * ldc;
        const f64 *row = b + t * ldb;
        int j = columns;
        for (; j + 2 <= upto; j += 2) wasm_v128_store(to + j, muladd64(at64(to + j), f, at64(row + j)));
        for (; j < upto; j++) to[j] += factor * row[j];
      }
  }
}

// Factor a = l l^T in place, in the lower triangle; returns 0, or the row at which it is not definite.
EXPORT(cholesky) int cholesky(f64 *a, int n) {
  for (int k = 0; k < n; k += BLOCK) {
    int upto = least(k + BLOCK, n);
    for (int i = k; i < n; i++) {
      f64 *row = a + i * n;
      for (int j = k; j < least(i + 1, upto); j++) {
        f64 rest = row[j] - dot(row + k, a + j * n + k, j - k);
        if (j < i)
          row[j] = rest / a[j * n + j];
        else if (rest > 0)
          row[j] = root64(rest);
        else
          return i + 1;
      }
    }
    int left = n - upto;
    f64 *panel = a + upto * n + k;
    nt(a + upto * n + upto, n, panel, n, panel, n, left, left, upto - k, -1, 1);
  }
  return 0;
}

// Solve l y = b for m right sides, the rows of b, in place.
EXPORT(forward) void forward(const f64 *l, int n, f64 *b, int m) {
  for (int k = 0; k < n; k += BLOCK) {
    int upto = least(k + BLOCK, n);
    nt(b + k, n, b, n, l + k * n, n, m, upto - k, k, -1, 0);
    for (int i = 0; i < m; i++)
      for (int j = k; j < upto; j++) b[i * n + j] = (b[i * n + j] - dot(l + j * n + k, b + i * n + k, j - k)) / l[j * n + j];
  }
}

// Solve l^T x = b likewise.
EXPORT(backward) void backward(const f64 *l, int n, f64 *b, int m) {
  for (int i = 0; i < m; i++)
    for (int j = n - 1; j >= 0; j--) {
      f64 *x = b + i * n, found = x[j] / l[j * n + j];
      const f64 *row = l + j * n;
      v128_t f = wasm_f64x2_splat(-found);
      int t = 0;
      for (; t + 2 <= j; t += 2) wasm_v128_store(x + t, muladd64(at64(x + t), f, at64(row + t)));
      for (; t < j; t++) x[t] -= found * row[t];
      x[j] = found;
    }
}

// Factor a symmetric a (n, n) = rows^T rows with few rows, largest rest first, until what is left
// of the diagonal is below `tiny`. Returns how many rows it took, or `most` + 1. `rest` has room for n.
EXPORT(rows_of) int rows_of(const f64 *a, int n, f64 *rows, int most, f64 *rest, f64 tiny) {
  for (int i = 0; i < n; i++) rest[i] = a[i * n + i];
  for (int k = 0;; k++) {
    int best = 0;
    for (int i = 1; i < n; i++)
      if (rest[i] > rest[best]) best = i;
    if (!(rest[best] > tiny)) return k;
    if (k == most) return most + 1;
    f64 *row = rows + k * n, scale = 1 / root64(rest[best]);
    for (int i = 0; i < n; i++) row[i] = a[best * n + i];
    for (int t = 0; t < k; t++) {
      const f64 *known = rows + t * n;
      v128_t f = wasm_f64x2_splat(-known[best]);
      int i = 0;
      for (; i + 2 <= n; i += 2) wasm_v128_store(row + i, muladd64(at64(row + i), f, at64(known + i)));
      for (; i < n; i++) row[i] -= known[best] * known[i];
    }
    for (int i = 0; i < n; i++) row[i] *= scale, rest[i] -= row[i] * row[i];
    rest[best] = 0;
  }
}

// --- a symmetric matrix in single precision becomes tridiagonal by reflections
// Its column c is at a + c n, from the diagonal on, and each reflection takes the place of its column.

static f32 dot32(const f32 *a, const f32 *b, int k) {
  v128_t s = wasm_f32x4_splat(0), t = s;
  int i = 0;
  for (; i + 8 <= k; i += 8) {
    s = muladd32(s, at32(a + i), at32(b + i));
    t = muladd32(t, at32(a + i + 4), at32(b + i + 4));
  }
  f32 sum = all4(wasm_f32x4_add(s, t));
  for (; i < k; i++) sum += a[i] * b[i];
  return sum;
}

static void axpy32(f32 *y, f32 factor, const f32 *x, int k) {
  v128_t f = wasm_f32x4_splat(factor);
  int i = 0;
  for (; i + 4 <= k; i += 4) wasm_v128_store(y + i, muladd32(at32(y + i), f, at32(x + i)));
  for (; i < k; i++) y[i] += factor * x[i];
}

// y = a v for what is left of the matrix from `from` on; both have n entries.
static void product(const f32 *a, int n, int from, const f32 *v, f32 *y) {
  for (int i = from; i < n; i++) y[i] = 0;
  int c = from;
  for (; c + 4 <= n; c += 4) {
    for (int i = c; i < c + 4; i++) {  // the corner where the four columns begin
      const f32 *column = a + i * n;
      y[i] += column[i] * v[i];
      for (int r = i + 1; r < c + 4; r++) y[i] += column[r] * v[r], y[r] += column[r] * v[i];
    }
    const f32 *a0 = a + c * n, *a1 = a0 + n, *a2 = a1 + n, *a3 = a2 + n;
    v128_t v0 = wasm_f32x4_splat(v[c]), v1 = wasm_f32x4_splat(v[c + 1]), v2 = wasm_f32x4_splat(v[c + 2]), v3 = wasm_f32x4_splat(v[c + 3]);
    v128_t s0 = wasm_f32x4_splat(0), s1 = s0, s2 = s0, s3 = s0;
    int r = c + 4;
    for (; r + 4 <= n; r += 4) {
      v128_t x0 = at32(a0 + r), x1 = at32(a1 + r), x2 = at32(a2 + r), x3 = at32(a3 + r), x = at32(v + r);
      v128_t p = muladd32(wasm_f32x4_mul(x0, v0), x1, v1), q = muladd32(wasm_f32x4_mul(x2, v2), x3, v3);
      wasm_v128_store(y + r, wasm_f32x4_add(at32(y + r), wasm_f32x4_add(p, q)));
      s0 = muladd32(s0, x0, x), s1 = muladd32(s1, x1, x), s2 = muladd32(s2, x2, x), s3 = muladd32(s3, x3, x);
    }
    y[c] += all4(s0), y[c + 1] += all4(s1), y[c + 2] += all4(s2), y[c + 3] += all4(s3);
    for (; r < n; r++) {
      y[c] += a0[r] * v[r], y[c + 1] += a1[r] * v[r], y[c + 2] += a2[r] * v[r], y[c + 3] += a3[r] * v[r];
      y[r] += a0[r] * v[c] + a1[r] * v[c + 1] + a2[r] * v[c + 2] + a3[r] * v[c + 3];
    }
  }
  for (; c < n; c++) {
    const f32 *column = a + c * n;
    y[c] += column[c] * v[c];
    for (int r = c + 1; r < n; r++) y[c] += column[r] * v[r], y[r] += column[r] * v[c];
  }
}

// Take the sum of so many products from what is left: column c loses factors[t][c] times row t.
static void subtract(f32 *a, int n, int from, const f32 *rows, const f32 *factors, int count) {
  for (int c = from; c < n; c += 4) {
    int columns = least(4, n - c), r = c;
    if (columns == 4)
      for (; r + 8 <= n; r += 8) {
        v128_t s[8];
        for (int i = 0; i < 4; i++) s[2 * i] = at32(a + (c + i) * n + r), s[2 * i + 1] = at32(a + (c + i) * n + r + 4);
        for (int t = 0; t < count; t++) {
          v128_t x = at32(rows + t * n + r), y = at32(rows + t * n + r + 4);
          const f32 *factor = factors + t * n + c;
          for (int i = 0; i < 4; i++) {
            v128_t f = wasm_v128_load32_splat(factor + i);
            s[2 * i] = mulsub32(s[2 * i], f, x), s[2 * i + 1] = mulsub32(s[2 * i + 1], f, y);
          }
        }
        for (int i = 0; i < 4; i++) wasm_v128_store(a + (c + i) * n + r, s[2 * i]), wasm_v128_store(a + (c + i) * n + r + 4, s[2 * i + 1]);
      }
    for (; r < n; r++)
      for (int i = 0; i < columns; i++) {
        f32 sum = 0;
        for (int t = 0; t < count; t++) sum += factors[t * n + c + i] * rows[t * n + r];
        a[(c + i) * n + r] -= sum;
      }
  }
}

// Reduce the next columns, from `from` on; returns how many are done. `work` has room for 4 PANEL n.
EXPORT(tridiagonal) int tridiagonal(f32 *a, int n, int from, f64 *diagonal, f64 *beside, f32 *taus, f32 *work) {
  // Rows 2 t and 2 t + 1 of the one are the reflection v and w, of the other w and v.
  f32 *rows = work, *factors = work + 2 * PANEL * n;
  int upto = least(from + PANEL, n);
  for (int c = from; c < upto; c++) {
    int count = 2 * (c - from);
    f32 *column = a + c * n;
    for (int t = 0; t < count; t++) axpy32(column + c, -factors[t * n + c], rows + t * n + c, n - c);
    diagonal[c] = column[c];
    beside[c] = 0, taus[c] = 0;
    if (c + 1 >= n) continue;
    f64 below = 0;
    for (int r = c + 2; r < n; r++) below += (f64)column[r] * column[r];
    f64 first = column[c + 1], length = root64(first * first + below);
    beside[c] = first;
    f32 tau = 0;
    if (below > 0) {
      f64 turned = first > 0 ? -length : length;
      beside[c] = turned;
      tau = (f32)((turned - first) / turned);
      f32 scale = (f32)(1 / (first - turned));
      for (int r = c + 2; r < n; r++) column[r] *= scale;
    }
    column[c + 1] = 1;
    taus[c] = tau;
    f32 *v = rows + count * n, *w = v + n, *wf = factors + count * n, *vf = wf + n;
    for (int r = from; r <= c; r++) v[r] = w[r] = 0;
    for (int r = c + 1; r < n; r++) v[r] = column[r];
    product(a, n, c + 1, v, w);
    for (int t = 0; t < count; t++) axpy32(w + c + 1, -dot32(factors + t * n + c + 1, v + c + 1, n - c - 1), rows + t * n + c + 1, n - c - 1);
    for (int r = c + 1; r < n; r++) w[r] *= tau;
    axpy32(w + c + 1, -0.5f * tau * dot32(w + c + 1, v + c + 1, n - c - 1), v + c + 1, n - c - 1);
    for (int r = from; r < n; r++) wf[r] = w[r], vf[r] = v[r];
  }
  subtract(a, n, upto, rows, factors, 2 * (upto - from));
  return upto;
}

// Apply the reflections to m rows of x, or undo that; from what `tridiagonal` has left in a.
EXPORT(reflect) void reflect(const f32 *a, int n, const f32 *taus, f32 *x, int m, int undo) {
  for (int step = 0; step < n - 1; step++) {
    int c = undo ? n - 2 - step : step, length = n - c - 1;
    const f32 *v = a + c * n + c + 1;
    for (int i = 0; i < m; i++) {
      f32 *row = x + i * n + c + 1;
      axpy32(row, -taus[c] * dot32(row, v, length), v, length);
    }
  }
}
