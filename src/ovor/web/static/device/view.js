// What the network sees of an image: the same bytes as Python's `test_view` makes of it.

import { scaledPart } from "./resample.js";

const LONGEST = 50; // times the shorter side: all of a longer strip, scaled, could fill the memory

/** The view of an image {pixels, width, height} for an encoder {size, crop_pct, interpolation}. */
export function viewOf(image, { size, crop_pct: share, interpolation }) {
  const { pixels, width, height } = middle(image);
  const shorter = Math.min(width, height);
  const scaled = Math.trunc(size / share);
  const [wide, high] = [width, height].map((side) => Math.floor((scaled * side) / shorter));
  const corner = [wide, high].map((side) => halfEven((side - size) / 2));
  return scaledPart({ pixels, width, height }, [wide, high], corner, size, interpolation);
}

/** A long strip is cut to the part around its centre. */
function middle(image) {
  const most = LONGEST * Math.min(image.width, image.height);
  const [width, height] = [Math.min(image.width, most), Math.min(image.height, most)];
  if (width === image.width && height === image.height) return image;
  const left = Math.floor((image.width - width) / 2);
  const top = Math.floor((image.height - height) / 2);
  const pixels = new Uint8Array(3 * width * height);
  for (let y = 0; y < height; y += 1) {
    const at = 3 * ((top + y) * image.width + left);
    pixels.set(image.pixels.subarray(at, at + 3 * width), 3 * y * width);
  }
  return { pixels, width, height };
}

/** Rounded as Python rounds: halves to the even neighbour. */
function halfEven(x) {
  const low = Math.floor(x);
  if (x - low !== 0.5) return Math.round(x);
  return low % 2 === 0 ? low : low + 1;
}
