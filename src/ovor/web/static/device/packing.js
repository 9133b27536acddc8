// Sums in a file: whole numbers of steps, all lowest bytes first, compressed.

import { nearest } from "./rounding.js";

const BYTES = 8; // of a number

/** Sums on a grid as compressed bytes. */
export async function packed(exact, steps) {
  const planes = new Uint8Array(BYTES * exact.length);
  for (let i = 0; i < exact.length; i += 1) {
    const whole = nearest(exact[i] * steps);
    const size = Math.abs(whole);
    let high = Math.floor(size / 2 ** 31); // of twice the number, so that its lowest bit is the sign
    let low = (size - high * 2 ** 31) * 2;
    if (whole < 0) {
      if (low === 0) high -= 1;
      low = (low + 2 ** 32 - 1) % 2 ** 32;
    }
    for (let byte = 0; byte < 4; byte += 1) {
      planes[byte * exact.length + i] = low >>> (8 * byte);
      planes[(byte + 4) * exact.length + i] = high >>> (8 * byte);
    }
  }
  const stream = new Blob([planes]).stream().pipeThrough(new CompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** What `packed` was given; throws if it was not so many numbers. */
export async function unpacked(content, steps, count) {
  const planes = await inflated(content, BYTES * count);
  const found = new Float64Array(count);
  for (let i = 0; i < count; i += 1) {
    let low = 0;
    let high = 0;
    for (let byte = 3; byte >= 0; byte -= 1) {
      low = low * 256 + planes[byte * count + i];
      high = high * 256 + planes[(byte + 4) * count + i];
    }
    const size = high * 2 ** 31 + Math.floor(low / 2);
    found[i] = (low % 2 ? -size - 1 : size) / steps;
  }
  return found;
}

/** Exactly so many bytes: no more are ever kept, whatever the content would unpack to. */
async function inflated(content, size) {
  const found = new Uint8Array(size);
  const reader = new Blob([content]).stream().pipeThrough(new DecompressionStream("deflate")).getReader();
  let filled = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    if (filled + value.length > size) {
      await reader.cancel();
      throw new RangeError("more bytes than there should be");
    }
    found.set(value, filled);
    filled += value.length;
  }
  if (filled !== size) throw new RangeError("fewer bytes than there should be");
  return found;
}
