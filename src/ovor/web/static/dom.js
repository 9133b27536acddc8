// Elements without markup strings: a file or a class may be called <script>.

export const byId = (id) => document.getElementById(id);

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
  if (share > 0 && share < 0.005) return "<1 %";
  if (share < 1 && share >= 0.995) return ">99 %";
  return `${Math.round(100 * share)} %`;
}
export const counted = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;
export const megabytes = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;

/** Say something to a screen reader, once. */
export function announce(sentence) {
  byId("status").textContent = sentence;
}

/** A picture of a file; TIFF, which browsers do not show, and broken files get a sign instead. */
export function thumbnail(file) {
  const frame = el("span", { class: "thumb" });
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
  return frame;
}
