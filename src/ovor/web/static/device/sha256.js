// SHA-256. The browser has its own, but only on pages that came by HTTPS or from this machine.

const ROUNDS = new Uint32Array(64);
const START = new Uint32Array(8);
for (let n = 2, found = 0; found < 64; n += 1) {
  let prime = true;
  for (let d = 2; d * d <= n; d += 1) prime &&= n % d !== 0;
  if (!prime) continue;
  const bits = (root) => Math.floor((root - Math.floor(root)) * 2 ** 32); // of its fraction
  if (found < 8) START[found] = bits(Math.sqrt(n));
  ROUNDS[found] = bits(Math.cbrt(n));
  found += 1;
}

export class Sha256 {
  #state = START.slice();
  #block = new Uint8Array(64);
  #view = new DataView(this.#block.buffer);
  #words = new Uint32Array(64);
  #filled = 0;
  #length = 0;

  update(bytes) {
    this.#length += bytes.length;
    for (let at = 0; at < bytes.length; ) {
      const count = Math.min(64 - this.#filled, bytes.length - at);
      this.#block.set(bytes.subarray(at, at + count), this.#filled);
      this.#filled += count;
      at += count;
      if (this.#filled === 64) this.#mix();
    }
    return this;
  }

  /** The 32 bytes; nothing can be added any more. */
  digest() {
    const bits = this.#length * 8;
    this.update(Uint8Array.of(0x80));
    if (this.#filled > 56) this.update(new Uint8Array(64 - this.#filled));
    this.update(new Uint8Array(56 - this.#filled));
    const end = new DataView(new ArrayBuffer(8));
    end.setUint32(0, Math.floor(bits / 2 ** 32));
    end.setUint32(4, bits >>> 0);
    this.update(new Uint8Array(end.buffer));
    const found = new DataView(new ArrayBuffer(32));
    this.#state.forEach((word, i) => found.setUint32(4 * i, word));
    return new Uint8Array(found.buffer);
  }

  #mix() {
    const w = this.#words;
    for (let i = 0; i < 16; i += 1) w[i] = this.#view.getUint32(4 * i);
    for (let i = 16; i < 64; i += 1) {
      const x = w[i - 15];
      const y = w[i - 2];
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    let [a, b, c, d, e, f, g, h] = this.#state;
    for (let i = 0; i < 64; i += 1) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + ROUNDS[i] + w[i]) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + t1) | 0;
      d = c;
      c = b;
      b = a;
      a = (t1 + t2) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => {
      this.#state[i] += word;
    });
    this.#filled = 0;
  }
}

export const sha256 = (bytes) => new Sha256().update(bytes).digest();
export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
