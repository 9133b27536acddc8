// Elements without markup strings: a file or a class may be called <script>.

import { items, written } from "./words.js";

export const byId = (id) => document.getElementById(id);

/** Whether an element has a place in the page now; checkVisibility is younger than browsers that can do all else. */
export const isSeen = (node) => node.getClientRects().length > 0;

export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export const sleep = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));
/** In whole percent; what is nearly nothing or nearly all says so. */
export function percent(share) {
  if (share > 0 && share < 0.005) return "<1 %";
  if (share < 1 && share >= 0.995) return ">99 %";
  return `${Math.round(100 * share)} %`;
}
export const counted = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;
export const megabytes = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;

export const listed = (names) =>
  names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;

/** Say something to a screen reader, once. */
export function announce(sentence) {
  byId("status").textContent = sentence;
}

const TONES = 6; // .line-0 to .line-5 in the style sheet

/** A tile for a class: its first letter on a colour of its own. No image of it is kept to show. */
export function tile(name) {
  let sum = 0;
  for (const letter of name) sum = (31 * sum + letter.codePointAt(0)) % 1009;
  const [first = "?"] = name.trim();
  return el("span", { class: `tile line-${sum % TONES}`, "aria-hidden": "true", text: first.toUpperCase() });
}

/** A class as a tile, its name, and how many images it was taught with. */
export const chip = ({ name, images }, ...more) =>
  el("li", {}, tile(name), el("span", { text: name }), el("small", { text: String(images), title: items(images) }), ...more);

/** A picture of a file; TIFF, which browsers do not show, and broken files get a sign instead. */
export function thumbnail(file) {
  if (written()) return quoted(file);
  const frame = el("span", { class: "thumb" });
  paint(frame, file);
  return frame;
}

/** Put the picture of a file into a frame. */
export function paint(frame, file) {
  const image = el("img", { alt: "" });
  const address = URL.createObjectURL(file);
  image.onload = () => {
    URL.revokeObjectURL(address);
    image.classList.toggle("tiny", image.naturalWidth <= 64);
  };
  image.onerror = () => {
    URL.revokeObjectURL(address);
    image.remove();
    frame.append(el("span", { class: "no-picture", "aria-hidden": "true", text: "?" }));
  };
  image.src = address;
  frame.append(image);
}

const SHOWN = 400; // characters of a quote

/** A quote: what is in it is text and nothing else, in whichever direction it is written. */
export const quote = (text) => el("q", { class: "quote", dir: "auto", text: text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text });

/** The beginning of a file, as a quote. */
export function quoted(file) {
  const frame = el("span", { class: "quoted" });
  file.slice(0, 4 * SHOWN).text().then((text) => frame.append(quote(text)));
  return frame;
}
