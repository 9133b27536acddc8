// A pad to draw on, and the drawing as the embedded backbone knows drawings.

const SIDE = 28;
const BOX = 256; // the drawings that it learned from had strokes from 0 to 255

export class Pad {
  constructor(canvas, changed) {
    this.canvas = canvas;
    this.changed = changed;
    this.strokes = []; // each a list of points, from 0 to 1
    canvas.addEventListener("pointerdown", (event) => this.begin(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(name, (event) => this.end(event));
    }
    new ResizeObserver(() => this.paint()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
  }

  get empty() {
    return !this.strokes.length;
  }

  undo() {
    this.strokes.pop();
    this.update();
  }

  clear() {
    this.strokes = [];
    this.update();
  }

  begin(event) {
    if (this.pointer !== undefined || event.button !== 0) return;
    event.preventDefault();
    this.pointer = event.pointerId;
    this.canvas.setPointerCapture(event.pointerId);
    this.strokes.push([this.point(event)]);
    this.paint();
  }

  move(event) {
    if (event.pointerId !== this.pointer) return;
    const between = event.getCoalescedEvents?.() ?? [];
    const points = (between.length ? between : [event]).map((one) => this.point(one));
    this.strokes.at(-1).push(...points);
    this.paint();
  }

  end(event) {
    if (event.pointerId !== this.pointer) return;
    this.pointer = undefined;
    this.update();
  }

  update() {
    this.paint();
    this.changed();
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  paint() {
    const { canvas } = this;
    const side = Math.round(canvas.clientWidth * devicePixelRatio);
    if (!side) return;
    canvas.width = canvas.height = side;
    const pen = canvas.getContext("2d");
    pen.strokeStyle = getComputedStyle(canvas).color;
    pen.lineWidth = side / 50;
    pen.lineCap = pen.lineJoin = "round";
    for (const stroke of this.strokes) {
      pen.beginPath();
      pen.moveTo(stroke[0][0] * side, stroke[0][1] * side);
      for (const [x, y] of stroke) pen.lineTo(x * side, y * side);
      pen.stroke();
    }
  }

  /** Paint it into a 28 x 28 canvas as the model wants it. */
  paintSmall(canvas) {
    const grey = raster(this.strokes);
    const pen = canvas.getContext("2d");
    const pixels = pen.createImageData(SIDE, SIDE);
    grey.forEach((value, i) => pixels.data.set([value, value, value, 255], 4 * i));
    pen.putImageData(pixels, 0, 0);
  }

  async file(name) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = SIDE;
    this.paintSmall(canvas);
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
    return new File([blob], name, { type: "image/png" });
  }
}

/**
 * Strokes as 28 x 28 grey values, white on black, made like the embedded drawings: moved to the top
 * left corner, the longer side 255 long, simplified (Ramer, Douglas and Peucker, 2 apart),
 * scaled down to 28, and drawn with Wu's lines, one pixel wide, which add up where they meet.
 */
function raster(strokes) {
  const grey = new Float32Array(SIDE * SIDE);
  const add = (x, y, value) => {
    if (x >= 0 && y >= 0 && x < SIDE && y < SIDE) grey[y * SIDE + x] += value;
  };
  for (const stroke of boxed(strokes)) {
    const points = simplified(stroke, 2).map(([x, y]) => [(x * SIDE) / BOX, (y * SIDE) / BOX]);
    if (points.length === 1) points.push(points[0]); // a tap is a dot
    for (let i = 1; i < points.length; i += 1) line(points[i - 1], points[i], add);
  }
  return Uint8ClampedArray.from(grey, (value) => 255 * Math.min(1, value));
}

function boxed(strokes) {
  const xs = strokes.flat().map(([x]) => x);
  const ys = strokes.flat().map(([, y]) => y);
  const [left, top] = [least(xs), least(ys)];
  const scale = (BOX - 1) / Math.max(-least(xs.map((x) => -x)) - left, -least(ys.map((y) => -y)) - top, 1e-3);
  return strokes.map((stroke) => stroke.map(([x, y]) => [(x - left) * scale, (y - top) * scale]));
}

const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);

/** The fewest points from which no point of the stroke is further than `apart`. */
function simplified(points, apart) {
  if (points.length < 3) return points;
  const [a, b] = [points[0], points.at(-1)];
  let worst = 0;
  let split = 0;
  for (let i = 1; i < points.length - 1; i += 1) {
    const distance = toSegment(points[i], a, b);
    if (distance > worst) [worst, split] = [distance, i];
  }
  if (worst <= apart) return [a, b];
  const before = simplified(points.slice(0, split + 1), apart);
  return [...before.slice(0, -1), ...simplified(points.slice(split), apart)];
}

function toSegment([x, y], [ax, ay], [bx, by]) {
  const [dx, dy] = [bx - ax, by - ay];
  const long = dx * dx + dy * dy;
  const along = long ? Math.max(0, Math.min(1, ((x - ax) * dx + (y - ay) * dy) / long)) : 0;
  return Math.hypot(x - ax - along * dx, y - ay - along * dy);
}

/** Each step along the longer direction shares one unit of white between two neighbours. */
function line(a, b, add) {
  const steep = Math.abs(b[1] - a[1]) > Math.abs(b[0] - a[0]);
  const along = steep ? 1 : 0;
  const [from, to] = a[along] <= b[along] ? [a, b] : [b, a];
  const [x0, y0, x1, y1] = [from[along], from[1 - along], to[along], to[1 - along]];
  const slope = x1 > x0 ? (y1 - y0) / (x1 - x0) : 0;
  for (let x = Math.round(x0); x <= Math.round(x1); x += 1) {
    const y = y0 + slope * (x - x0);
    const low = Math.floor(y);
    const rest = y - low;
    for (const [row, value] of [[low, 1 - rest], [low + 1, rest]]) {
      if (steep) add(row, x, value);
      else add(x, row, value);
    }
  }
}
