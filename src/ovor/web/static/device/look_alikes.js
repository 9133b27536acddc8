// What a name looks like: two names with a form in common differ only by case or look.
// The table is that of ovor/data/look_alikes.py.

const LOOK_LIKE = {
  '"': "\u201c\u201d\u201f\u2033",
  "'": "\u2018\u2019\u201b\u2032\u00b4\u02b9\u02bb\u02bc\u02bd`",
  "-": "\u2010\u2012\u2013\u2014\u2015\u2212",
  A: "\u0410\u0391\u13aa",
  B: "\u0412\u0392\u13f4",
  C: "\u0421\u03f9\u13df",
  D: "\u13a0",
  E: "\u0415\u0395\u13ac",
  G: "\u050c\u13c0",
  H: "\u041d\u0397\u13bb",
  I: "\u0406\u04c0\u0399",
  J: "\u0408\u037f\u13ab",
  K: "\u041a\u039a\u13e6",
  L: "\u13de",
  M: "\u041c\u039c\u13b7",
  N: "\u039d",
  O: "\u041e\u039f\u0555",
  P: "\u0420\u03a1\u13e2",
  Q: "\u051a",
  R: "\u13a1",
  S: "\u0405\u054f\u13da",
  T: "\u0422\u03a4\u13a2",
  U: "\u054d",
  V: "\u13d9",
  W: "\u051c\u13b3",
  X: "\u0425\u03a7",
  Y: "\u0423\u04ae\u03a5",
  Z: "\u0396\u13c3",
  a: "\u0430\u03b1\u0251",
  c: "\u0441\u03f2",
  d: "\u0501",
  e: "\u0435",
  g: "\u0581\u0261",
  h: "\u04bb\u0570",
  i: "\u0456\u03b9\u0131\u0269",
  j: "\u0458\u03f3\u0575",
  k: "\u03ba",
  l: "\u04cf",
  n: "\u0578",
  o: "\u043e\u03bf\u0585",
  p: "\u0440\u03c1",
  q: "\u051b\u0566",
  s: "\u0455",
  u: "\u03c5\u057d",
  v: "\u03bd",
  w: "\u051d",
  x: "\u0445\u03c7",
  y: "\u0443\u04af\u03b3",
};
const PLAIN = new Map(Object.entries(LOOK_LIKE).flatMap(([latin, odds]) => Array.from(odds, (odd) => [odd, latin])));
const STROKES = new Map([["I", "l"], ["1", "l"], ["|", "l"], ["0", "O"]]); // alike in many fonts
const VARIANTS = /[\u180b-\u180d\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/gu; // of the sign before
const BLANK = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]+"; // as Python has it
const BLANKS = new RegExp(BLANK);
const AROUND = new RegExp(`^${BLANK}|${BLANK}$`, "g");

/** A text without blanks around it. */
export const trimmed = (text) => text.replace(AROUND, "");

/** The words of a text. */
export const words = (text) => text.split(BLANKS).filter(Boolean);

/** What is left of a name without what only case, width or script make of it. */
export function forms(name) {
  const whole = name.replace(VARIANTS, "").normalize("NFKC");
  const plain = translated(whole, PLAIN);
  return new Set([whole, plain, translated(plain, STROKES)].map(folded));
}

const translated = (text, table) => Array.from(text, (sign) => table.get(sign) ?? sign).join("");

/** A text without case, and with single spaces. */
function folded(text) {
  const lower = Array.from(text, caseless).join("");
  return words(lower.normalize("NFKC").replaceAll("i\u0307", "i")).join(" ");
}

/** A sign without case: what its large form looks like when it is small, sign by sign. */
function caseless(sign) {
  if (sign === "\u0131") return sign; // the i without a dot has the large form of the other
  if (/[\u13a0-\u13fd\uab70-\uabbf]/.test(sign)) return sign.toUpperCase(); // Cherokee, as Unicode folds it
  return Array.from(sign.toLowerCase().toUpperCase(), (large) => large.toLowerCase()).join("");
}
