// The .ovor file of a model of exact sums: the one that Python reads and writes.

import { BINS, Calibration } from "./calibration.js";
import { described, notFinite, readDescription } from "./description.js";
import { Refused } from "./errors.js";
import { transposed } from "./linear.js";
import { Moments, SECOND_STEPS, SUM_STEPS } from "./moments.js";
import { halved, Novelty, whole } from "./novelty.js";
import { packed, unpacked } from "./packing.js";
import { hex } from "./sha256.js";
import { readTensors, writeTensors } from "./tensor_file.js";

const WIDEST = 4096; // numbers of a feature: the head is solved with matrices of as many rows and columns
const PARTS = ["learner.", "judge.", "backbone."];
const ARRAYS = { F64: Float64Array, F32: Float32Array, I32: Int32Array, F16: Uint16Array, U8: Uint8Array };
const WEIGHTS = "The weights in this file do not fit its method, its classes and its backbone: learn it anew.";
const DISTANCES = "The distances in this file do not fit its classes and its backbone: learn it anew.";

/**
 * What a file holds: its words, its state, and the tensors of a bundled backbone as they are.
 * `fits` may refuse it by its words and its width, before anything large is made of it.
 */
export async function readModel(content, fits = () => {}) {
  const { tensors, meta } = readTensors(content);
  for (const [name, tensor] of tensors) checkFinite(name, tensor);
  const about = readDescription(meta);
  const prefixes = about.backbone.bundled ? PARTS : PARTS.slice(0, 2);
  const strange = [...tensors.keys()].find((name) => !prefixes.some((prefix) => name.startsWith(prefix)));
  if (strange !== undefined) throw new Refused(`This file holds weights of nothing (${strange.slice(0, 60)}): learn it anew.`);
  const classes = about.tasks.reduce((total, task) => total + task.classes.length, 0);
  const reader = new Reader(tensors, WEIGHTS);
  fits(about, reader.shape("learner.weights")[0]);
  const learned = await learner(reader, about, classes);
  const judging = judge(new Reader(tensors, DISTANCES), learned.width, classes);
  const bundled = new Map([...tensors].filter(([name]) => name.startsWith("backbone.")));
  const { tasks, expected, lesson } = about;
  return { about, bundled, width: learned.width, state: { ...learned, ...judging, tasks, expected, lesson } };
}

/** Tensors that must be there, of this kind and shape. */
class Reader {
  constructor(tensors, sentence) {
    Object.assign(this, { tensors, sentence });
  }

  fail() {
    throw new Refused(this.sentence);
  }

  has = (name) => this.tensors.has(name);

  shape = (name) => (this.tensors.get(name) ?? this.fail()).shape;

  numbers(name, shape, kind = "F64") {
    const found = this.tensors.get(name);
    if (found?.kind !== kind || String(found.shape) !== String(shape)) this.fail();
    return new ARRAYS[kind](found.bytes.slice().buffer);
  }

  one = (name) => this.numbers(name, [])[0];

  /** Sums that were packed, or in older files not. */
  async sums(name, steps, shape, count) {
    const found = this.tensors.get(name) ?? this.fail();
    if (found.kind !== "U8") return this.numbers(name, shape);
    if (found.shape.length !== 1) this.fail();
    try {
      return await unpacked(found.bytes, steps, count);
    } catch {
      return this.fail();
    }
  }

  /** Columns in half precision with scales, as rows. */
  halves(name, width, count) {
    const halves = transposed(this.numbers(name, [width, count], "F16"), width, count);
    return whole({ halves, scales: this.numbers(`${name}.scales`, [count]) }, width);
  }
}

async function learner(reader, about, classes) {
  const [width] = reader.shape("learner.weights");
  if (!(width > 0 && width <= WIDEST)) reader.fail();
  const names = ["weights", "bias", ...(about.sums ? ["counts", "sums", "second", "gone"] : [])];
  const own = [...reader.tensors.keys()].filter((name) => name.startsWith("learner."));
  if (own.length !== names.length) reader.fail();
  const weights = transposed(reader.numbers("learner.weights", [width, classes]), width, classes);
  const head = { weights, bias: reader.numbers("learner.bias", [classes]) };
  if (!about.sums) return { width, head, moments: null };
  const upper = (width * (width + 1)) / 2;
  const moments = new Moments(width, {
    counts: reader.numbers("learner.counts", [classes]),
    sums: await reader.sums("learner.sums", SUM_STEPS, [classes, width], classes * width),
    second: Moments.secondOf(await reader.sums("learner.second", SECOND_STEPS, [upper], upper), width),
    gone: reader.numbers("learner.gone", [2]),
  });
  return { width, head, moments };
}

const DOUBTS = ["gains", "constants", "claimed", "doubt"]; // what older models lack of distances

function judge(reader, width, classes) {
  const axes = reader.shape("judge.novelty.axes").at(-1) ?? 0;
  if (!(axes <= width)) reader.fail();
  const one = (name, shape) => reader.numbers(`judge.novelty.${name}`, shape);
  const older = !reader.has("judge.novelty.leading") && !reader.has("judge.novelty.others"); // before it was kept apart, the axes had it in them
  const plain = !DOUBTS.some((name) => reader.has(`judge.novelty.${name}`));
  const novelty = new Novelty({
    weights: reader.halves("judge.novelty.weights", width, classes),
    centre: one("centre", [width]),
    offsets: one("offsets", [classes]),
    kernel: one("kernel", [classes, classes]),
    axes: reader.halves("judge.novelty.axes", width, axes),
    leading: older ? new Float64Array(axes).fill(1) : one("leading", [axes]),
    others: older ? 0 : reader.one("judge.novelty.others"),
    level: reader.one("judge.novelty.level"),
    scale: reader.one("judge.novelty.scale"),
    gains: plain ? new Float64Array(2) : one("gains", [2]),
    constants: plain ? new Float64Array(classes) : one("constants", [classes]),
    claimed: plain ? 0 : reader.one("judge.novelty.claimed"),
    doubt: plain ? 0 : reader.one("judge.novelty.doubt"),
  });
  const bins = Object.entries(BINS).map(([name, count]) => reader.numbers(`judge.calibration.${name}`, [count]));
  return { novelty, calibration: new Calibration(...bins), digests: digestsOf(reader, classes) };
}

function digestsOf(reader, classes) {
  if (!reader.has("judge.digests.rows")) return null;
  const [count] = reader.shape("judge.digests.rows");
  const rows = reader.numbers("judge.digests.rows", [count], "I32");
  const bytes = reader.numbers("judge.digests.digests", [count, 16], "U8");
  if (rows.some((row) => row < 0 || row >= classes)) reader.fail();
  return new Map(Array.from(rows, (row, i) => [hex(bytes.subarray(16 * i, 16 * i + 16)), row]));
}

function checkFinite(name, { kind, bytes }) {
  if (!["F64", "F32", "F16", "BF16"].includes(kind)) return;
  const Kind = { F64: Float64Array, F32: Float32Array }[kind] ?? Uint16Array;
  const numbers = new Kind(bytes.slice().buffer);
  const exponent = { F16: 0x7c00, BF16: 0x7f80 }[kind]; // all of it set: no number, or no end
  const wrong = exponent ? (x) => (x & exponent) === exponent : (x) => !Number.isFinite(x);
  if (numbers.some(wrong)) throw notFinite(` in '${name.slice(0, 60)}'`);
}

/** The content of the file of a model. */
export async function writeModel(about, bundled, state) {
  const { head, moments, novelty, calibration, digests } = state;
  const classes = head.bias.length;
  const width = novelty.centre.length;
  const tensors = new Map(bundled);
  const put = (name, kind, shape, numbers) => {
    tensors.set(name, { kind, shape, bytes: new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength) });
  };
  put("learner.weights", "F64", [width, classes], transposed(head.weights, classes, width));
  put("learner.bias", "F64", [classes], head.bias);
  if (moments) {
    const [sums, second] = [await packed(moments.sums, SUM_STEPS), await packed(moments.upper, SECOND_STEPS)];
    put("learner.counts", "F64", [classes], moments.counts);
    put("learner.sums", "U8", [sums.length], sums);
    put("learner.second", "U8", [second.length], second);
    put("learner.gone", "F64", [2], moments.gone);
  }
  for (const [name, rows] of [["weights", novelty.weights], ["axes", novelty.axes]]) {
    const { halves, scales } = halved(rows, width);
    put(`judge.novelty.${name}`, "F16", [width, scales.length], transposed(halves, scales.length, width));
    put(`judge.novelty.${name}.scales`, "F64", [scales.length], scales);
  }
  put("judge.novelty.centre", "F64", [width], novelty.centre);
  put("judge.novelty.offsets", "F64", [classes], novelty.offsets);
  put("judge.novelty.kernel", "F64", [classes, classes], novelty.kernel);
  put("judge.novelty.leading", "F64", [novelty.leading.length], novelty.leading);
  const single = ["others", "level", "scale"];
  if (novelty.doubt > 0) {
    put("judge.novelty.gains", "F64", [2], Float64Array.from(novelty.gains));
    put("judge.novelty.constants", "F64", [classes], novelty.constants);
    single.push("claimed", "doubt");
  }
  for (const name of single) put(`judge.novelty.${name}`, "F64", [], Float64Array.of(novelty[name]));
  for (const [name, count] of Object.entries(BINS)) put(`judge.calibration.${name}`, "F64", [count], calibration[name]);
  if (digests) {
    const bytes = [...digests.keys()].flatMap((key) => key.match(/../g).map((pair) => parseInt(pair, 16)));
    put("judge.digests.rows", "I32", [digests.size], Int32Array.from(digests.values()));
    put("judge.digests.digests", "U8", [digests.size, 16], Uint8Array.from(bytes));
  }
  return writeTensors(tensors, described(about, state));
}

