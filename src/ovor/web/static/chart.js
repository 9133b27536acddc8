// The forgetting curve: a line for each task over the lessons, told apart by dash and mark too.

import { el, svg } from "./dom.js";

const DASHES = ["", "7 4", "2 4", "10 4 2 4", "14 5", "5 3 2 3 2 3"];
const MARKS = [
  (x, y) => svg("circle", { cx: x, cy: y, r: 4.5 }),
  (x, y) => svg("rect", { x: x - 4, y: y - 4, width: 8, height: 8 }),
  (x, y) => svg("path", { d: `M${x} ${y - 5.5}l5.5 9.5h-11z` }),
  (x, y) => svg("path", { d: `M${x} ${y - 6}l6 6-6 6-6-6z` }),
  (x, y) => svg("path", { d: `M${x} ${y + 5.5}l5.5 -9.5h-11z` }),
];
const COLOURS = 6; // .line-0 to .line-5 in the style sheet

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

/** lines: [{task, points: [{lessons, accuracy}]}], accuracy in percent. */
function drawn(lines, lessons, width) {
  const [left, right, top, bottom] = [52, 66, 14, 46];
  const height = Math.max(300, 70 + 17 * lines.length);
  const x = (n) => left + ((width - left - right) * (lessons > 1 ? (n - 1) / (lessons - 1) : 0.5));
  const y = (share) => top + (height - top - bottom) * (1 - share / 100);
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${height}`,
    class: "chart",
    role: "img",
    "aria-label": summary(lines),
  });
  for (const share of [0, 25, 50, 75, 100]) {
    picture.append(
      svg("line", { class: "grid", x1: left, x2: width - right, y1: y(share), y2: y(share) }),
      text(left - 10, y(share) + 4, `${share}`, "end"),
    );
  }
  const step = Math.ceil(lessons / 12);
  for (let n = 1; n <= lessons; n += step) picture.append(text(x(n), height - bottom + 22, `${n}`, "middle"));
  picture.append(text((left + width - right) / 2, height - 4, "lessons learned", "middle", "axis"));
  const side = text(0, 0, "right, %", "middle", "axis");
  side.setAttribute("transform", `translate(14 ${(top + height - bottom) / 2}) rotate(-90)`);
  picture.append(side);

  const heights = apart(lines.map(({ points }) => y(points.at(-1).accuracy)), 16, top, height - bottom);
  lines.forEach(({ task, points }, i) => {
    const group = svg("g", { class: `curve line-${i % COLOURS}` });
    const places = points.map((point) => [x(point.lessons), y(point.accuracy)]);
    group.append(
      svg("polyline", {
        points: places.map((place) => place.join(",")).join(" "),
        "stroke-dasharray": DASHES[i % DASHES.length],
      }),
      ...places.map((place) => MARKS[i % MARKS.length](...place)),
      text(places.at(-1)[0] + 13, heights[i] + 4, `task ${task}`, "start"),
    );
    picture.append(group);
  });
  return picture;
}

/** The same as a table. */
export function table(lines, lessons) {
  const columns = Array.from({ length: lessons }, (_, i) => i + 1);
  const head = el(
    "tr",
    {},
    el("th", { scope: "col", text: "Task" }),
    ...columns.map((n) => el("th", { scope: "col", text: `after lesson ${n}` })),
  );
  const rows = lines.map(({ task, points }) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", text: `Task ${task}` }),
      ...columns.map((n) => {
        const point = points.find((one) => one.lessons === n);
        return el("td", { text: point ? shareOf(point.accuracy) : "–" });
      }),
    ),
  );
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Accuracy as a table" },
    el(
      "table",
      {},
      el("caption", { text: "Right, by task and lesson" }),
      el("thead", {}, head),
      el("tbody", {}, ...rows),
    ),
  );
}

export const shareOf = (accuracy) => `${accuracy.toFixed(1)} %`;

const summary = (lines) =>
  `Accuracy over lessons. ${lines
    .map(({ task, points }) => {
      const [first, last] = [points[0], points.at(-1)];
      const now = last === first ? "" : `, after lesson ${last.lessons} ${shareOf(last.accuracy)}`;
      return `Task ${task}: after lesson ${first.lessons} ${shareOf(first.accuracy)}${now}.`;
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
