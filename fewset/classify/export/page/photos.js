// From a file to the pixels that the network was trained on, as fewset does it: see resampling.js.

import { readable } from "./problems.js";
import { crop, reduce, resize } from "./resampling.js";

const STRIP = 2 ** 22; // pixels of a photo that are looked at at once: phones have little memory
const LONGEST = 8; // times the shorter side: what is beyond is cut off
const THUMBNAIL = 256;

/**
 * The pixels {width, height, data} of a photo before their normalisation, and a small copy as an address. An error says
 * what to do with a photo that this browser cannot read.
 */
export const prepared = (file, settings) => readable(file, async () => {
  // Upright, and with the colours that are in the file: fewset does not look at colour profiles, either.
  const bitmap = await createImageBitmap(file, { imageOrientation: "from-image", colorSpaceConversion: "none" });
  try {
    const whole = reduced(bitmap, settings.least, await isJpeg(file));
    return { pixels: fitted(whole, settings), thumbnail: small(bitmap) };
  } finally {
    bitmap.close();
  }
});

async function isJpeg(file) {
  const [first, second] = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  return first === 0xff && second === 0xd8;
}

/**
 * A large photo with at least twice the pixels that are needed, as averages of squares of pixels. fewset decodes a JPEG
 * file at 1/2, 1/4 or 1/8 of its size first, and averages then.
 */
function reduced(bitmap, least, jpeg) {
  const shorter = Math.min(bitmap.width, bitmap.height);
  const first = jpeg ? ([8, 4, 2].find((scale) => shorter >= 2 * least * scale) ?? 1) : 1;
  const second = Math.max(1, Math.floor(Math.ceil(shorter / first) / (2 * least)));
  const factor = first * second;
  const width = Math.ceil(Math.ceil(bitmap.width / first) / second);
  const height = Math.ceil(Math.ceil(bitmap.height / first) / second);
  const data = new Uint8ClampedArray(4 * width * height);
  const rows = factor * Math.max(1, Math.floor(STRIP / bitmap.width / factor));
  for (let top = 0; top < bitmap.height; top += rows) {
    const bottom = Math.min(top + rows, bitmap.height);
    const strip = reduce(read(bitmap, top, bottom), first);
    data.set(reduce(strip, second).data, (4 * width * top) / factor);
  }
  return { width, height, data };
}

/** Some rows of a photo; what is transparent is white. */
function read(bitmap, top, bottom) {
  const rows = bottom - top;
  const context = canvas(bitmap.width, rows).getContext("2d", { willReadFrequently: true });
  context.fillStyle = "white";
  context.fillRect(0, 0, bitmap.width, rows);
  context.drawImage(bitmap, 0, -top);
  return context.getImageData(0, 0, bitmap.width, rows);
}

/** Resized and cropped. `resize` is the shorter side, or height and width that the whole is stretched to. */
function fitted(image, { height, width, resize: target, filter }) {
  const stretched = Array.isArray(target);
  const whole = stretched ? image : withoutFarEnds(image);
  const side = Math.min(whole.width, whole.height);
  const [tall, wide] = stretched
    ? target
    : [Math.floor((target * whole.height) / side), Math.floor((target * whole.width) / side)];
  const resized = resize(whole, wide, tall, filter);
  return crop(resized, Math.floor((wide - width) / 2), Math.floor((tall - height) / 2), width, height);
}

function withoutFarEnds(image) {
  const limit = LONGEST * Math.min(image.width, image.height);
  const width = Math.min(image.width, limit);
  const height = Math.min(image.height, limit);
  const left = Math.floor((image.width - width) / 2);
  return crop(image, left, Math.floor((image.height - height) / 2), width, height);
}

/** A small copy to look at. */
function small(bitmap) {
  const scale = Math.min(1, THUMBNAIL / Math.max(bitmap.width, bitmap.height));
  const [width, height] = [bitmap.width, bitmap.height].map((side) => Math.max(1, Math.round(side * scale)));
  const copy = canvas(width, height);
  const context = copy.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.fillStyle = "white";
  context.fillRect(0, 0, width, height);
  context.drawImage(bitmap, 0, 0, width, height);
  return copy.toDataURL("image/jpeg", 0.8);
}

function canvas(width, height) {
  return Object.assign(document.createElement("canvas"), { width, height });
}
