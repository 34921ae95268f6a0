// A large JPEG file at 1/2, 1/4 or 1/8 of its size, as libjpeg decodes it in Python. Each square of pixels becomes its
// mean there. But most files store colour (its blue and red part) at half the size; a browser enlarges it before anybody
// sees it, and blends each stored value with its neighbours, 3 to 1. So the stored values are worked out first.

import { crop, reduce } from "./resampling.js";

const HEADER = 2 ** 20; // bytes in which a file says how it stores colour
const FRAMES = [0xc0, 0xc1, 0xc2]; // the segments that say it: baseline, extended, progressive
const MARGIN = 16; // rows beyond a strip that are looked at: further ones do not matter

const blue = (data, at) => -0.168736 * data[at] - 0.331264 * data[at + 1] + 0.5 * data[at + 2];
const red = (data, at) => 0.5 * data[at] - 0.418688 * data[at + 1] - 0.081312 * data[at + 2];

/** How many pixels of a photo that is `width` of them wide a stored colour is for; undefined if it is no JPEG. */
export async function colourSampling(file, width) {
  const bytes = new DataView(await file.slice(0, HEADER).arrayBuffer());
  if (bytes.byteLength < 4 || bytes.getUint16(0) !== 0xffd8) return undefined;
  for (let place = 2; place + 20 <= bytes.byteLength; place += 2 + bytes.getUint16(place + 2)) {
    if (!FRAMES.includes(bytes.getUint8(place + 1))) continue;
    const [light, ...colours] = [11, 14, 17].map((offset) => bytes.getUint8(place + offset));
    if (bytes.getUint8(place + 9) !== 3 || colours.some((factors) => factors !== 0x11)) break; // a rare kind
    const [across, down] = [light >> 4, light & 15];
    const turned = bytes.getUint16(place + 7) !== width; // by its EXIF data
    return turned ? { across: down, down: across } : { across, down };
  }
  return { across: 1, down: 1 };
}

/** Rows `top` to `bottom` of a photo at 1/`factor` of its size; `read` gives rows at full size. */
export function reducedRows(read, top, bottom, height, factor, { across, down } = {}) {
  const halved = across <= 2 && down <= 2 && across * down > 1;
  if (factor === 1 || !halved) return reduce(read(top, bottom), factor);
  const above = Math.min(MARGIN, top);
  const rows = read(top - above, Math.min(height, bottom + MARGIN));
  const small = recoloured(rows, factor, across, down);
  return crop(small, 0, above / factor, small.width, Math.ceil((bottom - top) / factor));
}

function recoloured(image, factor, across, down) {
  const { width, height, data } = reduce(image, factor);
  const [blues, reds] = [blue, red].map((part) => decoded(stored(image, part, across, down), factor, across, down));
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = 4 * (y * width + x);
      const moreBlue = blues.data[y * blues.width + x] - blue(data, at);
      const moreRed = reds.data[y * reds.width + x] - red(data, at);
      data[at] += 1.402 * moreRed; // rounded, and kept within 0 and 255, by the array
      data[at + 1] -= 0.344136 * moreBlue + 0.714136 * moreRed;
      data[at + 2] += 1.772 * moreBlue;
    }
  }
  return { width, height, data };
}

/** A part of the colour as it is in the file. */
function stored(image, part, across, down) {
  const { width, height } = image;
  const data = Float32Array.from({ length: width * height }, (_, place) => part(image.data, 4 * place));
  const plane = mean({ width, height, data }, across, down);
  if (across === 2) for (let y = 0; y < plane.height; y++) unblend(plane.data, y * plane.width, 1, plane.width);
  if (down === 2) for (let x = 0; x < plane.width; x++) unblend(plane.data, x, plane.width, plane.height);
  return plane;
}

/** As libjpeg decodes it: where it is halved both ways, that is used; else it is reduced like the rest, and enlarged. */
function decoded(plane, factor, across, down) {
  if (across === down) return mean(plane, factor / 2, factor / 2);
  const { width, height, data } = mean(plane, factor, factor);
  const near = factor < 8 ? 0.25 : 0; // what a neighbour counts
  const large = { width: across * width, height: down * height };
  large.data = new Float32Array(large.width * large.height);
  for (let y = 0; y < large.height; y++) {
    for (let x = 0; x < large.width; x++) {
      const [column, row] = [Math.floor(x / across), Math.floor(y / down)];
      const besideX = across === 2 ? Math.min(width - 1, Math.max(0, column + (x % 2 ? 1 : -1))) : column;
      const besideY = down === 2 ? Math.min(height - 1, Math.max(0, row + (y % 2 ? 1 : -1))) : row;
      const value = (1 - near) * data[row * width + column] + near * data[besideY * width + besideX];
      large.data[y * large.width + x] = value;
    }
  }
  return large;
}

/** Rectangles of so many values as one each, their mean. */
function mean(plane, across, down) {
  const width = Math.ceil(plane.width / across);
  const height = Math.ceil(plane.height / down);
  const data = new Float32Array(width * height);
  for (let y = 0; y < height; y++) {
    const bottom = Math.min((y + 1) * down, plane.height);
    for (let x = 0; x < width; x++) {
      const right = Math.min((x + 1) * across, plane.width);
      let sum = 0;
      for (let row = y * down; row < bottom; row++) {
        for (let column = x * across; column < right; column++) sum += plane.data[row * plane.width + column];
      }
      data[y * width + x] = sum / ((bottom - y * down) * (right - x * across));
    }
  }
  return { width, height, data };
}

/**
 * Values along a line, in place, from the means of pairs after enlarging, (before + 6 own + after) / 8; at its ends
 * (7 own + neighbour) / 8. A system of equations with three diagonals (Thomas).
 */
function unblend(data, start, step, length) {
  if (length === 1) return;
  const above = new Float32Array(length);
  for (let k = 0; k < length; k++) {
    const at = start + k * step;
    const own = (k === 0 || k === length - 1 ? 7 : 6) - (k ? above[k - 1] : 0);
    above[k] = 1 / own;
    data[at] = (8 * data[at] - (k ? data[at - step] : 0)) / own;
  }
  for (let k = length - 2; k >= 0; k--) data[start + k * step] -= above[k] * data[start + (k + 1) * step];
}
