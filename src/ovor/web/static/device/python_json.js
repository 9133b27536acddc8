// JSON as Python reads and writes it: whole numbers and fractions stay apart (1 is not 1.0), an object
// is a Map, so that no name in it means anything, and the text of a value is Python's to the letter.

const DEEPEST = 100;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const PLAIN = /[^"\\\x00-\x1f]*/y;
const BLANK = /[ \t\n\r]*/y;
const LETTERS = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
const WORDS = [["null", () => null], ["true", () => true], ["false", () => false]];

/** A number that Python has as a float. */
export class Float {
  constructor(value) {
    this.value = value;
  }
}

WORDS.push(["NaN", () => new Float(NaN)], ["Infinity", () => new Float(Infinity)]);
WORDS.push(["-Infinity", () => new Float(-Infinity)]);

/** The value of a text; throws a SyntaxError where it is none. */
export function parse(text) {
  const reader = new Reader(text);
  const value = reader.value(0);
  reader.skip();
  if (reader.at < text.length) reader.fail();
  return value;
}

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  fail() {
    throw new SyntaxError(`no JSON at ${this.at}`);
  }

  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at = pattern.lastIndex;
    return found;
  }

  skip() {
    this.match(BLANK);
  }

  /** Whether this sign comes next, which is passed then. */
  passes(sign) {
    this.skip();
    if (this.text[this.at] !== sign) return false;
    this.at += 1;
    return true;
  }

  value(depth) {
    if (depth > DEEPEST) this.fail();
    if (this.passes("{")) return this.object(depth);
    if (this.passes("[")) return this.list(depth);
    if (this.passes('"')) return this.string();
    for (const [word, make] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return make();
      }
    }
    const found = this.match(NUMBER);
    if (!found) this.fail();
    if (found[1] ?? found[2]) return new Float(Number(found[0]));
    const whole = Number(found[0]);
    return Number.isSafeInteger(whole) ? whole + 0 : BigInt(found[0]);
  }

  object(depth) {
    const found = new Map();
    if (this.passes("}")) return found;
    for (;;) {
      if (!this.passes('"')) this.fail();
      const key = this.string();
      if (!this.passes(":")) this.fail();
      found.set(key, this.value(depth + 1));
      if (this.passes("}")) return found;
      if (!this.passes(",")) this.fail();
    }
  }

  list(depth) {
    const found = [];
    if (this.passes("]")) return found;
    for (;;) {
      found.push(this.value(depth + 1));
      if (this.passes("]")) return found;
      if (!this.passes(",")) this.fail();
    }
  }

  string() {
    const parts = [];
    for (;;) {
      parts.push(this.match(PLAIN)[0]);
      const sign = this.text[this.at];
      this.at += 1;
      if (sign === '"') return parts.join("");
      if (sign !== "\\") this.fail();
      parts.push(this.escaped());
    }
  }

  escaped() {
    const letter = this.text[this.at] ?? this.fail();
    this.at += 1;
    if (letter !== "u") return Object.hasOwn(LETTERS, letter) ? LETTERS[letter] : this.fail();
    const code = this.text.slice(this.at, this.at + 4);
    if (!/^[0-9a-fA-F]{4}$/.test(code)) this.fail();
    this.at += 4;
    return String.fromCharCode(parseInt(code, 16));
  }
}

/** The text that Python's json.dumps gives, with the keys in order if that is asked for. */
export function dumps(value, sorted = false) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return quoted(value);
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  if (value instanceof Float) return repr(value.value);
  if (Array.isArray(value)) return `[${value.map((inner) => dumps(inner, sorted)).join(", ")}]`;
  const keys = [...value.keys()];
  if (sorted) keys.sort(byCodePoint);
  return `{${keys.map((key) => `${quoted(key)}: ${dumps(value.get(key), sorted)}`).join(", ")}}`;
}

/** A float as Python writes it. */
export function repr(x) {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity";
  if (Object.is(x, -0)) return "-0.0";
  const [digits, power] = x.toExponential().split("e");
  if (x !== 0 && (power < -4 || power >= 16)) {
    return `${digits}e${power[0]}${power.slice(1).padStart(2, "0")}`;
  }
  const plain = String(x);
  return plain.includes(".") ? plain : `${plain}.0`;
}

/** A plain value as this module has it: objects as Maps. */
export function mapped(value) {
  if (Array.isArray(value)) return value.map(mapped);
  if (typeof value === "number" && !Number.isSafeInteger(value)) return new Float(value);
  if (value === null || typeof value !== "object" || value instanceof Map || value instanceof Float) return value;
  return new Map(Object.entries(value).map(([key, inner]) => [key, mapped(inner)]));
}

/** A value of this module for comparing: 1 and 1.0 are the same. */
export function plain(value) {
  if (value instanceof Float) return value.value;
  if (Array.isArray(value)) return value.map(plain);
  return value instanceof Map ? [...value].sort(([a], [b]) => byCodePoint(a, b)).map(([key, inner]) => [key, plain(inner)]) : value;
}

const SHORT = { '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const quoted = (text) =>
  `"${text.replace(/[^ !#-[\]-~]/g, (sign) => SHORT[sign] ?? `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`)}"`;

/** Whether one text comes before another, by whole characters and not by halves. */
export function byCodePoint(one, other) {
  const [a, b] = [Array.from(one), Array.from(other)];
  for (let i = 0; i < Math.min(a.length, b.length); i += 1) {
    if (a[i] !== b[i]) return a[i].codePointAt(0) - b[i].codePointAt(0);
  }
  return a.length - b.length;
}
