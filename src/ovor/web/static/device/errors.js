// What a person can mend, in one sentence of one line.

// Control characters, line separators, halves of characters, and what turns the direction of text.
export const UNPRINTABLE =
  /[\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

const everyUnprintable = new RegExp(UNPRINTABLE.source, "g");
const coded = (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** A text with what would break or turn the line written out. */
const oneLine = (text) => text.replace(everyUnprintable, coded);

/** What cannot be done, as the page's other back end says it: with a status, and names in question. */
export class Refused extends Error {
  constructor(sentence, { status = 422, alike = [] } = {}) {
    super(oneLine(sentence));
    Object.assign(this, { status, alike, images: [] });
  }
}
