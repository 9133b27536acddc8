// Numbers as Python rounds and writes them, so that both sides say the same.

const EXACT = 60; // digits, with which every number that ends in a 5 is written out

/** Rounded to so many digits, as Python's `round`: halves go to the even digit. */
export function rounded(x, digits) {
  if (!Number.isFinite(x) || Math.abs(x) > 1e15) return x;
  const found = Number(x.toFixed(digits));
  const rest = x.toFixed(EXACT).split(".")[1].slice(digits);
  if (!/^50*$/.test(rest)) return found;
  const step = 10 ** digits;
  const below = Math.floor(Math.abs(x) * step);
  return (Math.sign(x) * (below + (below % 2))) / step;
}

const MAGIC = 6755399441055744; // 1.5 * 2^52: adding it leaves no fraction, halves go to the even

/** The nearest whole number, halves to the even one; for what is below 2^51. */
export const nearest = (x) => (Math.abs(x) < 2 ** 51 ? x + MAGIC - MAGIC : Math.round(x));

/** A number in at most six digits, as "%g" writes it. */
export function short(x) {
  const found = Number(x.toPrecision(6));
  if (found === 0 || (Math.abs(found) >= 1e-4 && Math.abs(found) < 1e6)) return String(found);
  const [digits, power] = found.toExponential().split("e");
  return `${digits}e${power[0]}${power.slice(1).padStart(2, "0")}`;
}
