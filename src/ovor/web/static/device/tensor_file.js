// Tensors and a JSON value in one safetensors file, with a digest of both, as Python writes it.

import { Refused } from "./errors.js";
import { dumps, parse } from "./python_json.js";
import { hex, Sha256 } from "./sha256.js";

const LONGEST = 100 * 2 ** 20; // bytes of a header
// By name, the bytes of a number; in the order in which safetensors writes them, the last first.
const SIZES = new Map(
  Object.entries({ BOOL: 1, U8: 1, I8: 1, I16: 2, U16: 2, F16: 2, BF16: 2, I32: 4, U32: 4, F32: 4, F64: 8, I64: 8, U64: 8 }),
);
const KINDS = [...SIZES.keys()];
const OURS = '{"__metadata__":{"ovor":';
const ELSEWHERE = "This file is not a file that ovor wrote, or its beginning is lost: give another.";
const DAMAGED = "This file is truncated or damaged, its content does not match its digest: put a whole copy in its place.";

/** The tensors (name -> kind, shape, bytes) and the JSON value (an object is a Map) of a file. */
export function readTensors(content) {
  try {
    const { tensors, meta, expected } = parsed(content);
    if (digest(tensors, meta) === expected) return { tensors, meta };
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof TypeError || error instanceof RangeError)) throw error;
    const start = new TextDecoder().decode(content.subarray(8, 8 + OURS.length));
    if (start !== OURS) throw new Refused(ELSEWHERE);
  }
  throw new Refused(DAMAGED);
}

/** The content of a file. */
export function writeTensors(tensors, meta) {
  const said = dumps(new Map([["meta", meta], ["sha256", digest(tensors, meta)]]));
  const { order, head } = header(tensors, `"__metadata__":{"ovor":${JSON.stringify(said)}}`);
  const parts = [head, ...order.map((name) => tensors.get(name).bytes)];
  const found = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
  let at = 0;
  for (const part of parts) {
    found.set(part, at);
    at += part.length;
  }
  return found;
}

function parsed(content) {
  if (content.length < 8) throw new SyntaxError("no header");
  const view = new DataView(content.buffer, content.byteOffset, content.byteLength);
  const length = view.getUint32(0, true) + view.getUint32(4, true) * 2 ** 32;
  if (length > LONGEST || 8 + length > content.length) throw new SyntaxError("a header beyond the end");
  const words = parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content.subarray(8, 8 + length)));
  const said = parse(words.get("__metadata__").get("ovor"));
  const [meta, expected] = [said.get("meta"), said.get("sha256")];
  if (!(meta instanceof Map)) throw new SyntaxError("no object");
  return { tensors: tensorsOf(words, content.subarray(8 + length)), meta, expected };
}

/** What a header says of the bytes after it: every byte is of one tensor. */
function tensorsOf(words, data) {
  const tensors = new Map();
  const ranges = [];
  for (const [name, said] of words) {
    if (name === "__metadata__") continue;
    const [kind, shape, offsets] = ["dtype", "shape", "data_offsets"].map((key) => said.get(key));
    const [begin, end] = offsets;
    const numbers = shape.reduce((total, side) => (whole(side) ? total * side : NaN), 1);
    if (said.size !== 3 || offsets.length !== 2 || !whole(begin) || !whole(end) || !SIZES.has(kind)) throw new SyntaxError(name);
    if (end - begin !== numbers * SIZES.get(kind) || end > data.length) throw new SyntaxError(name);
    tensors.set(name, { kind, shape, bytes: data.subarray(begin, end) });
    ranges.push([begin, end]);
  }
  ranges.sort(([a, b], [c, d]) => a - c || b - d);
  let at = 0;
  for (const [begin, end] of ranges) {
    if (begin !== at) throw new SyntaxError("a gap");
    at = end;
  }
  if (at !== data.length) throw new SyntaxError("more than the tensors");
  return tensors;
}

const whole = (x) => Number.isSafeInteger(x) && x >= 0;

/** The SHA-256 of tensors and a JSON value. */
function digest(tensors, meta) {
  const { order, head } = header(tensors);
  const found = new Sha256().update(head);
  for (const name of order) found.update(tensors.get(name).bytes);
  return hex(found.update(new TextEncoder().encode(dumps(meta, true))).digest());
}

/** How safetensors begins a file of these tensors, and in which order they follow. */
function header(tensors, first = "") {
  const rank = (name) => KINDS.indexOf(tensors.get(name).kind);
  const order = [...tensors.keys()].sort((a, b) => rank(b) - rank(a) || byBytes(a, b));
  let at = 0;
  const parts = order.map((name) => {
    const { kind, shape, bytes } = tensors.get(name);
    const begin = at;
    at += bytes.length;
    return `${JSON.stringify(name)}:{"dtype":"${kind}","shape":[${shape}],"data_offsets":[${begin},${at}]}`;
  });
  const text = new TextEncoder().encode(`{${[...(first ? [first] : []), ...parts].join(",")}}`);
  const length = Math.ceil(text.length / 8) * 8;
  const head = new Uint8Array(8 + length).fill(0x20, 8);
  new DataView(head.buffer).setUint32(0, length, true);
  head.set(text, 8);
  return { order, head };
}

const encoder = new TextEncoder();
function byBytes(one, other) {
  const [a, b] = [encoder.encode(one), encoder.encode(other)];
  for (let i = 0; i < Math.min(a.length, b.length); i += 1) if (a[i] !== b[i]) return a[i] - b[i];
  return a.length - b.length;
}
