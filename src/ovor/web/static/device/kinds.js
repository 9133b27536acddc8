// What a file is by its first bytes, and how many pixels it has, before anything decodes it.

const text = (bytes, at, length) => String.fromCharCode(...bytes.subarray(at, at + length));
const big = (bytes, at, count = 4) => bytes.subarray(at, at + count).reduce((sum, byte) => 256 * sum + byte, 0);
const little = (bytes, at, count = 4) => bytes.slice(at, at + count).reduceRight((sum, byte) => 256 * sum + byte, 0);

const STARTS = [
  ["%PDF", "a PDF document"],
  ["PK\x03\x04", "an archive"],
  ["\x1f\x8b", "an archive"],
  ["\x1aE\xdf\xa3", "a video"],
  ["8BPS", "a Photoshop file"],
  ["\xff\x0a", "a JPEG XL image"],
  ["II*\0", "TIFF"],
  ["MM\0*", "TIFF"],
];

/** {kind, width, height} of a file that browsers show; else {other}: what it is instead, or null. */
export function kindOf(bytes) {
  const start = text(bytes, 0, 8);
  if (start.startsWith("\x89PNG\r\n\x1a\n")) return { kind: "PNG", width: big(bytes, 16), height: big(bytes, 20) };
  if (start.startsWith("\xff\xd8\xff")) return { kind: "JPEG", ...jpegSize(bytes) };
  if (/^GIF8[79]a/.test(start)) return { kind: "GIF", width: little(bytes, 6, 2), height: little(bytes, 8, 2) };
  if (start.startsWith("BM")) return { kind: "BMP", width: little(bytes, 18), height: Math.abs(little(bytes, 22) | 0) };
  if (start.startsWith("RIFF") && text(bytes, 8, 4) === "WEBP") return { kind: "WebP", ...webpSize(bytes) };
  return { other: otherKind(bytes, start) };
}

function otherKind(bytes, start) {
  if (start.slice(4) === "ftyp") {
    const brand = text(bytes, 8, 4);
    if (/^avi[fs]$/.test(brand)) return "AVIF";
    return /^(he[iv][cmsx]|mif1|msf1)$/.test(brand) ? "HEIC" : "a video";
  }
  const words = text(bytes, 0, Math.min(bytes.length, 1024)).replace(/^\xef\xbb\xbf/, "").trimStart();
  if (/^<(!doctype html|html|head|body)\b/i.test(words)) return "a web page";
  if (words.startsWith("<") && words.includes("<svg")) return "an SVG drawing";
  return STARTS.find(([first]) => start.startsWith(first))?.[1] ?? null;
}

/** By the frame's own segment; thumbnails in others are skipped with them. */
function jpegSize(bytes) {
  for (let at = 2; at + 9 < bytes.length && bytes[at] === 0xff; ) {
    const mark = bytes[at + 1];
    if (mark === 0xff) at += 1;
    else if (mark >= 0xc0 && mark <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(mark)) {
      return { width: big(bytes, at + 7, 2), height: big(bytes, at + 5, 2) };
    } else at += 2 + big(bytes, at + 2, 2);
  }
  return { width: 0, height: 0 };
}

function webpSize(bytes) {
  const part = text(bytes, 12, 4);
  if (part === "VP8X") return { width: 1 + little(bytes, 24, 3), height: 1 + little(bytes, 27, 3) };
  if (part === "VP8L") {
    const packed = little(bytes, 21);
    return { width: 1 + (packed % 16384), height: 1 + (Math.floor(packed / 16384) % 16384) };
  }
  return { width: little(bytes, 26, 2) % 16384, height: little(bytes, 28, 2) % 16384 };
}
