// The WebAssembly kernel (kernel.c) for matrices of JavaScript: they are copied in and out again.

import { Refused } from "./errors.js";

const PAGE = 65536;
export const FULL = "There is not enough memory here for so large a model: close other tabs, and try again.";
let loaded = null;

/** The kernel; it is loaded once. */
export function kernel() {
  loaded ??= load().catch((error) => {
    loaded = null;
    throw error;
  });
  return loaded;
}

async function load() {
  const answer = await fetch(new URL("kernel.wasm", import.meta.url)).catch(() => null);
  if (!answer?.ok) throw new Refused("A part of this page is missing (kernel.wasm): load the page again.");
  const memory = new WebAssembly.Memory({ initial: 2 });
  try {
    const { instance } = await WebAssembly.instantiate(await answer.arrayBuffer(), { env: { memory } });
    return new Kernel(instance.exports, memory);
  } catch (error) {
    if (!(error instanceof WebAssembly.CompileError)) throw error;
    throw new Refused("This browser is too old for this page (it has no vectors in WebAssembly): use a newer one.");
  }
}

/** Matrices that are in the kernel's memory as long as a task needs them. */
class Kernel {
  constructor(functions, memory) {
    Object.assign(this, { functions, memory, next: functions.__heap_base.value });
  }

  /** Do a task that puts matrices into the kernel's memory; afterwards their room is free again. */
  within(task) {
    const { next } = this;
    try {
      return task(this);
    } finally {
      this.next = next;
    }
  }

  /** Room for so many numbers of a kind, as their address; values go into it if they are given. */
  room(Kind, length, values = null) {
    const address = Math.ceil(this.next / 16) * 16;
    this.next = address + length * Kind.BYTES_PER_ELEMENT;
    const missing = this.next - this.memory.buffer.byteLength;
    if (missing > 0) this.grow(Math.ceil(missing / PAGE));
    const found = new Kind(this.memory.buffer, address, length);
    if (values) found.set(values);
    else found.fill(0);
    return address;
  }

  grow(pages) {
    try {
      this.memory.grow(pages);
    } catch {
      throw new Refused(FULL);
    }
  }

  put = (values) => this.room(values.constructor, values.length, values);

  /** The numbers at an address, as long as nothing else is put in. */
  view = (Kind, address, length) => new Kind(this.memory.buffer, address, length);

  take = (Kind, address, length) => this.view(Kind, address, length).slice();
}
