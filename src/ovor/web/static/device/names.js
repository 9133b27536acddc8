// The one rule for class names, as Python has it: how they are written, which are refused, how they
// are listed, and which are much alike.

import { Refused, UNPRINTABLE } from "./errors.js";
import { forms, trimmed, words } from "./look_alikes.js";

export const UNKNOWN = "unknown"; // what an image is called that is like no class that was learned
const LONGEST = 200; // characters of a name
// What takes no space, or looks like one.
const UNSEEN =
  /[\xad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}]/u;
const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
const UNSHOWN = /[\p{C}\p{Z}]/u;

/** A text as class names are written: trimmed, and each accented letter one character. */
export function asName(text) {
  const whole = text.normalize("NFC");
  return trimmed(whole) || whole; // of blanks alone, for the sentence that refuses them
}

/** Refuse a name that means "no class", or that people cannot read or tell from another. */
export function checkName(name) {
  const wrong = unreadable(name);
  if (wrong) throw new Refused(`A class cannot be called ${shortened(name)}, ${wrong}: choose another name.`);
  const reserved = forms(UNKNOWN);
  if ([...forms(name)].some((form) => reserved.has(form))) {
    const why = "which is the answer for what is of no class: choose another name";
    throw new Refused(`A class cannot be called ${quoted(name)}, ${why}.`);
  }
}

/** Why people could not read a name, as the end of a sentence, if they could not. */
export function unreadable(name) {
  if (!words(name).length) return "which cannot be read on one line";
  const found = UNPRINTABLE.exec(name) ?? UNSEEN.exec(name);
  if (found) {
    const code = found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `which cannot be read on one line, as it has the character U+${code} (${kind(found[0])})`;
  }
  const length = Array.from(name).length;
  if (length > LONGEST) return `which has ${length.toLocaleString("en")} characters, and at most ${LONGEST} are allowed`;
  return null;
}

function kind(character) {
  if (/^[\ud800-\udfff]$/.test(character)) return "not UTF-8";
  if (/[\x00-\x1f\x7f-\x9f\u2028\u2029]/.test(character)) return "a control character";
  return TURNING.test(character) ? "it changes the direction of the text" : "it cannot be seen";
}

export const shortened = (name) => {
  const signs = Array.from(name);
  return signs.length <= LONGEST ? quoted(name) : `${quoted(signs.slice(0, 40).join(""))}...`;
};

/** A text in quotes as Python's repr has it, with what cannot be seen written out. */
export function quoted(text) {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const short = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", [mark]: `\\${mark}` };
  return mark + Array.from(text, (sign) => short[sign] ?? (sign !== " " && UNSHOWN.test(sign) ? coded(sign) : sign)).join("") + mark;
}

function coded(sign) {
  const code = sign.codePointAt(0).toString(16);
  if (code.length <= 2) return `\\x${code.padStart(2, "0")}`;
  return code.length <= 4 ? `\\u${code.padStart(4, "0")}` : `\\U${code.padStart(8, "0")}`;
}

/** The first five names in quotes, and whether there are others. */
export const listed = (names) => names.slice(0, 5).map(quoted).join(", ") + (names.length > 5 ? " and others" : "");

/** Pairs of a new name and a known one, or one given before it, that are much alike. */
export function alike(given, known) {
  const owners = new Map();
  for (const name of known) for (const form of forms(name)) if (!owners.has(form)) owners.set(form, name);
  const there = new Set(known);
  const found = [];
  for (const name of new Set(given)) {
    const own = [...forms(name)].sort();
    const form = own.find((one) => owners.has(one));
    if (!there.has(name) && form !== undefined && owners.get(form) !== name) found.push({ given: name, known: owners.get(form) });
    for (const one of own) if (!owners.has(one)) owners.set(one, name);
  }
  return found;
}

/** Ask about new names that differ from others only by case or look, unless they may. */
export function checkNewNames(given, known, yes) {
  const pairs = yes ? [] : alike(given, known);
  if (!pairs.length) return;
  const shown = pairs.slice(0, 3).map((pair) => `${written(pair.given)} and ${written(pair.known)}`);
  const more = pairs.length > 3 ? ` (and ${pairs.length - 3} more pairs)` : "";
  const question = `Are ${shown.join("; ")}${more} two classes? They differ only by case or look.`;
  const remedy = "If they are one, use the same name; if they are two, say so (yes=true).";
  throw new Refused(`${question} ${remedy}`, { status: 409, alike: pairs });
}

/** A name in quotes, with its signs beyond ASCII written out, which may look like others. */
const written = (name) =>
  /^[\x00-\x7f]*$/.test(name)
    ? quoted(name)
    : `${quoted(name)} (${Array.from(name, (sign) => (sign > "\x7f" ? coded(sign) : sign)).join("")})`;

/** The rows of classes, or a sentence on which is not known. */
export function rowsOf(names, known) {
  const strange = names.filter((name) => !known.includes(name));
  if (strange.length) {
    const shown = known.length ? `the model knows ${listed(known)}` : "it knows none";
    throw new Refused(`There is no class ${listed(strange.map((name) => name.slice(0, LONGEST)))}: ${shown}.`, { status: 404 });
  }
  return names.map((name) => known.indexOf(name));
}
