// The forgetting curve: a line for each class or group over the lessons, told apart by dash and mark too.

import { el, svg } from "./dom.js";
import { inWords, interval } from "./interval.js";
import { items, many, upper } from "./words.js";

const DASHES = ["", "7 4", "2 4", "10 4 2 4", "14 5", "5 3 2 3 2 3"];
const MARKS = [
  (x, y) => svg("circle", { cx: x, cy: y, r: 4.5 }),
  (x, y) => svg("rect", { x: x - 4, y: y - 4, width: 8, height: 8 }),
  (x, y) => svg("path", { d: `M${x} ${y - 5.5}l5.5 9.5h-11z` }),
  (x, y) => svg("path", { d: `M${x} ${y - 6}l6 6-6 6-6-6z` }),
  (x, y) => svg("path", { d: `M${x} ${y + 5.5}l5.5 -9.5h-11z` }),
];
const COLOURS = 6; // .line-0 to .line-5 in the style sheet
const GAP = 6; // between the intervals of two lines
const NARROW = 560; // below, names are in the legend alone

/** A chart as wide as its place, and drawn anew when that changes: letters keep their size. */
export function chart(lines, lessons) {
  const frame = el("div", { class: "frame" });
  let width = 0;
  const paint = () => {
    if (!frame.clientWidth || frame.clientWidth === width) return;
    width = frame.clientWidth;
    frame.replaceChildren(drawn(lines, lessons, width));
  };
  new ResizeObserver(() => requestAnimationFrame(paint)).observe(frame);
  return frame;
}

/** lines: [{name, points: [{lessons, right, images}]}]. */
function drawn(lines, lessons, width) {
  const wide = width >= NARROW;
  const longest = Math.max(...lines.map(({ name }) => short(name).length));
  const spread = GAP * (lines.length - 1) / 2; // to the side of a lesson, both ways
  const [left, right, top, bottom] = [52, wide ? 30 + spread + 8 * longest : 16, 14, 46];
  const height = Math.max(300, 70 + 17 * lines.length);
  const x = (n) => left + 6 + spread + (width - left - right - 12 - 2 * spread) * (lessons > 1 ? (n - 1) / (lessons - 1) : 0.5);
  const y = (percent) => top + (height - top - bottom) * (1 - percent / 100);
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${height}`,
    class: "chart",
    role: "img",
    "aria-label": summary(lines),
  });
  for (const at of [0, 25, 50, 75, 100]) {
    picture.append(
      svg("line", { class: "grid", x1: left, x2: width - right, y1: y(at), y2: y(at) }),
      text(left - 10, y(at) + 4, `${at}`, "end"),
    );
  }
  const step = Math.ceil(lessons / 12);
  for (let n = 1; n <= lessons; n += step) picture.append(text(x(n), height - bottom + 22, `${n}`, "middle"));
  picture.append(text((left + width - right) / 2, height - 4, "lessons learned", "middle", "axis"));
  const side = text(0, 0, "right, %", "middle", "axis");
  side.setAttribute("transform", `translate(14 ${(top + height - bottom) / 2}) rotate(-90)`);
  picture.append(side);

  const heights = apart(lines.map(({ points }) => y(share(points.at(-1)))), 16, top, height - bottom);
  lines.forEach(({ name, points }, i) => {
    const group = svg("g", { class: `curve line-${i % COLOURS}` });
    const aside = GAP * i - spread; // so that intervals do not lie on each other
    const places = points.map((point) => [x(point.lessons) + aside, y(share(point))]);
    group.append(
      ...points.map((point, j) => whisker(places[j][0], ...interval(point.right, point.images).map(y))),
      svg("polyline", {
        points: places.map((place) => place.join(",")).join(" "),
        "stroke-dasharray": DASHES[i % DASHES.length],
      }),
      ...places.map((place) => MARKS[i % MARKS.length](...place)),
    );
    if (wide) group.append(text(places.at(-1)[0] + 14 + spread - aside, heights[i] + 4, short(name), "start"));
    picture.append(group);
  });
  return picture;
}

const share = ({ right, images }) => (100 * right) / images;

const whisker = (x, low, high) =>
  svg("path", { class: "whisker", d: `M${x - 3} ${high}h6M${x} ${high}V${low}M${x - 3} ${low}h6` });

const short = (name) => (name.length > 24 ? `${name.slice(0, 23)}…` : name);

/** Which line is of which classes, and of how many images. */
export function legend(lines) {
  const keys = lines.map(({ name, points }, i) => {
    const mark = svg("svg", { class: `chart-key curve line-${i % COLOURS}`, viewBox: "0 0 30 14", width: 30, height: 14, "aria-hidden": "true" });
    mark.append(
      svg("polyline", { points: "0,7 30,7", "stroke-dasharray": DASHES[i % DASHES.length] }),
      MARKS[i % MARKS.length](15, 7),
    );
    return el("li", {}, mark, el("span", { text: name }), el("small", { text: items(points.at(-1).images) }));
  });
  return el(
    "div",
    {},
    el("ul", { class: "legend", "aria-label": "Lines" }, ...keys),
    el("p", { class: "hint", text: `The thin bars say what so few ${many()} leave open: in 95 of 100 cases the true share lies within.` }),
  );
}

/** The same as a table. */
export function table(lines, lessons) {
  const columns = Array.from({ length: lessons }, (_, i) => i + 1);
  const head = el(
    "tr",
    {},
    el("th", { scope: "col", text: "Classes" }),
    el("th", { scope: "col", text: upper(many()) }),
    ...columns.map((n) => el("th", { scope: "col", text: `after lesson ${n}` })),
  );
  const rows = lines.map(({ name, points }) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", text: name }),
      el("td", { text: String(points.at(-1).images) }),
      ...columns.map((n) => {
        const point = points.find((one) => one.lessons === n);
        return el("td", { text: point ? inWords(point.right, point.images) : "–" });
      }),
    ),
  );
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Accuracy as a table" },
    el(
      "table",
      {},
      el("caption", { text: `Right, with what the number of ${many()} leaves open` }),
      el("thead", {}, head),
      el("tbody", {}, ...rows),
    ),
  );
}

const summary = (lines) =>
  `Accuracy over lessons. ${lines
    .map(({ name, points }) => {
      const [first, last] = [points[0], points.at(-1)];
      const now = last === first ? "" : `, after lesson ${last.lessons} ${inWords(last.right, last.images)}`;
      return `${name}: after lesson ${first.lessons} ${inWords(first.right, first.images)}${now}.`;
    })
    .join(" ")}`;

function text(x, y, words, anchor, kind = "") {
  const node = svg("text", { x, y, "text-anchor": anchor, class: kind });
  node.textContent = words;
  return node;
}

/** Heights moved as little as needed, so that labels do not lie on each other. */
function apart(heights, gap, top, bottom) {
  const order = heights.map((_, i) => i).sort((a, b) => heights[a] - heights[b]);
  const moved = [...heights];
  let above = top - gap;
  for (const i of order) above = moved[i] = Math.max(moved[i], above + gap);
  let below = bottom + gap;
  for (const i of order.reverse()) below = moved[i] = Math.min(moved[i], below - gap);
  return moved;
}
