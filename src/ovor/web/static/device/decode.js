// From an image file to its pixels, upright and on white, by the browser's own decoder.
//
// The browser converts no colours and multiplies no alpha in, so that what it gives is what is in the
// file. Where it stays away from Python: pixels that are partly transparent may differ by one step, and
// of 16 bits it may round where Python takes the upper 8. TIFF and HEIC no browser reads everywhere.

import { kindOf } from "./kinds.js";

const TAKEN = "JPEG, PNG, WebP, GIF or BMP";
const WEBP_COUNTS = 1.5; // its decoder keeps two more copies, so that a pixel counts for more
const commas = (number) => number.toLocaleString("en-US");

/** An image that cannot be used, with a sentence that says why. */
class Unusable extends Error {}

/** The pixels of a file as {pixels, width, height}, three bytes each, row by row. */
export async function decoded(file, name, limits) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  check(bytes, name, limits);
  let bitmap;
  try {
    bitmap = await createImageBitmap(new Blob([bytes]), { colorSpaceConversion: "none", premultiplyAlpha: "none", imageOrientation: "from-image" });
  } catch {
    throw new Unusable(`${name} cannot be read (it is broken, or cut short): give a whole copy, or leave it out.`);
  }
  try {
    return flat(bitmap, name);
  } finally {
    bitmap.close();
  }
}

/** Refuse what is no image, or too large, before a pixel is decoded. */
function check(bytes, name, limits) {
  if (!bytes.length) throw new Unusable(`${name} is empty: give the whole file.`);
  if (bytes.length > limits.image_bytes) throw new Unusable(`${name} is larger than ${commas(limits.image_bytes)} bytes: make it smaller.`);
  const { kind, width, height, other } = kindOf(bytes);
  if (!kind) throw new Unusable(`${name} is ${other ?? "not an image"}: give ${TAKEN}.`);
  if (width * height * (kind === "WebP" ? WEBP_COUNTS : 1) > limits.pixels) {
    throw new Unusable(`${name} has more than the ${commas(limits.pixels)} pixels that are taken here (of a WebP two thirds of them): make it smaller.`);
  }
}

/** The pixels of a bitmap, those that are transparent on white. */
function flat(bitmap, name) {
  const { width, height } = bitmap;
  const pen = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  if (!pen || !width || !height) throw new Unusable(`${name} takes more memory than an image is given here: make it smaller.`);
  pen.drawImage(bitmap, 0, 0);
  const { data } = pen.getImageData(0, 0, width, height);
  const pixels = new Uint8Array(3 * width * height);
  for (let from = 0, to = 0; from < data.length; from += 4, to += 3) {
    const alpha = data[from + 3];
    if (alpha === 255) {
      pixels[to] = data[from];
      pixels[to + 1] = data[from + 1];
      pixels[to + 2] = data[from + 2];
    } else {
      for (let channel = 0; channel < 3; channel += 1) {
        pixels[to + channel] = onWhite(data[from + channel], alpha);
      }
    }
  }
  return { pixels, width, height };
}

/** A value on white, in Pillow's whole numbers. */
function onWhite(value, alpha) {
  const sum = 128 * (value * alpha + 255 * (255 - alpha) + 128);
  return ((sum >> 8) + sum) >> 15;
}
