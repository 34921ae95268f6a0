// Pillow's resizing, to the last bit: a photo must reach the network as it does in Python. A canvas resizes in
// another way in each browser. Images are {width, height, data}: red, green, blue, alpha, a byte each; alpha is
// left alone. A port of src/libImaging/Resample.c and Reduce.c of Pillow, whose licence is in LICENSES.txt.

const BITS = 22; // of the fixed-point numbers in which Pillow adds up

const sinc = (x) => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));

const FILTERS = {
  box: [0.5, (x) => (x > -0.5 && x <= 0.5 ? 1 : 0)],
  bilinear: [1, (x) => Math.max(0, 1 - Math.abs(x))],
  hamming: [1, (x) => (Math.abs(x) < 1 ? sinc(x) * (0.54 + 0.46 * Math.cos(Math.PI * x)) : 0)],
  bicubic: [2, (x) => {
    const a = -0.5;
    const d = Math.abs(x);
    if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0;
  }],
  lanczos: [3, (x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0)],
};

/** The image at another size. */
export function resize(image, width, height, filter) {
  if (image.width === width && image.height === height) return image;
  if (filter === "nearest") return nearest(image, width, height);
  // The order in which Pillow goes since its version 13; it makes a difference of a rounding.
  const less = image.height - height;
  const verticalFirst = less > 0 && less > 2 * (image.width - width);
  return [verticalFirst, !verticalFirst].reduce((part, vertical) => {
    const length = vertical ? height : width;
    return length === (vertical ? part.height : part.width) ? part : resampled(part, length, filter, vertical);
  }, image);
}

/** The image with each square of `factor` pixels as one, their mean; what is left at the ends is averaged, too. */
export function reduce(image, factor) {
  if (factor === 1) return image;
  const width = Math.ceil(image.width / factor);
  const height = Math.ceil(image.height / factor);
  const data = new Uint8ClampedArray(4 * width * height);
  for (let y = 0; y < height; y++) {
    const bottom = Math.min((y + 1) * factor, image.height);
    for (let x = 0; x < width; x++) {
      const right = Math.min((x + 1) * factor, image.width);
      const count = (bottom - y * factor) * (right - x * factor);
      const multiplier = Math.floor(2 ** 32 / (256 * count));
      for (let channel = 0; channel < 3; channel++) {
        let sum = Math.floor(count / 2);
        for (let row = y * factor; row < bottom; row++) {
          const start = 4 * row * image.width + channel;
          for (let column = x * factor; column < right; column++) sum += image.data[start + 4 * column];
        }
        data[4 * (y * width + x) + channel] = Math.floor((sum * multiplier) / 2 ** 24);
      }
    }
  }
  return { width, height, data };
}

/** The part of an image from its upper left corner at (left, top). */
export function crop(image, left, top, width, height) {
  const data = new Uint8ClampedArray(4 * width * height);
  for (let y = 0; y < height; y++) {
    const start = 4 * ((top + y) * image.width + left);
    data.set(image.data.subarray(start, start + 4 * width), 4 * y * width);
  }
  return { width, height, data };
}

/** For each of the new pixels the first old one that it sees, and the weights of these. */
function coefficients(before, after, filter) {
  const [reach, weigh] = FILTERS[filter];
  const scale = before / after;
  const wide = Math.max(scale, 1);
  const support = reach * wide;
  return Array.from({ length: after }, (_, place) => {
    const centre = (place + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - support + 0.5));
    const last = Math.min(before, Math.trunc(centre + support + 0.5));
    const weights = [];
    for (let x = first; x < last; x++) weights.push(weigh((x - centre + 0.5) * (1 / wide)));
    const sum = weights.reduce((total, weight) => total + weight, 0);
    const fixed = weights.map((weight) => {
      const scaled = (sum === 0 ? weight : weight / sum) * 2 ** BITS;
      return Math.trunc(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    });
    return { first, weights: Int32Array.from(fixed) };
  });
}

/** One side, the height or the width, at another length. */
function resampled(image, length, filter, vertical) {
  const width = vertical ? image.width : length;
  const height = vertical ? length : image.height;
  const data = new Uint8ClampedArray(4 * width * height);
  const step = vertical ? 4 * image.width : 4;
  const seen = coefficients(vertical ? image.height : image.width, length, filter);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const { first, weights } = seen[vertical ? y : x];
      const start = vertical ? first * step + 4 * x : 4 * y * image.width + first * step;
      for (let channel = 0; channel < 3; channel++) {
        let sum = 1 << (BITS - 1);
        for (let k = 0; k < weights.length; k++) {
          sum += image.data[start + k * step + channel] * weights[k];
        }
        data[4 * (y * width + x) + channel] = Math.floor(sum / 2 ** BITS); // the array keeps it within 0 and 255
      }
    }
  }
  return { width, height, data };
}

function nearest(image, width, height) {
  const data = new Uint8ClampedArray(4 * width * height);
  const columns = middles(image.width, width);
  middles(image.height, height).forEach((row, y) => {
    columns.forEach((column, x) => {
      const start = 4 * (row * image.width + column);
      data.set(image.data.subarray(start, start + 3), 4 * (y * width + x));
    });
  });
  return { width, height, data };
}

/** The old pixel at the middle of each new one; added up step by step, as Pillow rounds. */
function middles(before, after) {
  const step = before / after;
  let place = step / 2;
  return Array.from({ length: after }, () => {
    const found = Math.trunc(place);
    place += step;
    return found;
  });
}
