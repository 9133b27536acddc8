// Half precision, which not every browser has.

const single = new Float32Array(1);
const bits = new Uint32Array(single.buffer);

/** The 16 bits of a number, rounded to the nearest by way of single precision, halves to the even. */
export function toHalf(x) {
  single[0] = x;
  const sign = (bits[0] >>> 16) & 0x8000;
  const size = bits[0] & 0x7fffffff;
  if (size > 0x7f800000) return sign | 0x7e00; // no number
  if (size >= 0x477ff000) return sign | 0x7c00; // too large
  if (size < 0x38800000) {
    return sign | tiny(Math.abs(single[0])); // below the smallest with all digits
  }
  const odd = (size >>> 13) & 1;
  return sign | ((size - 0x38000000 + 0xfff + odd) >>> 13);
}

function tiny(x) {
  const steps = x * 2 ** 24;
  const down = Math.floor(steps);
  const rest = steps - down;
  return rest > 0.5 || (rest === 0.5 && down % 2) ? down + 1 : down;
}

export function fromHalf(half) {
  const size = half & 0x3ff;
  const power = (half >>> 10) & 0x1f;
  const sign = half & 0x8000 ? -1 : 1;
  if (power === 31) return size ? NaN : sign * Infinity;
  return sign * (power ? (1 + size / 1024) * 2 ** (power - 15) : size * 2 ** -24);
}
