// The encoder, computed by onnxruntime-web in this browser: pixels in, rows of features out.

import * as ort from "./ort.wasm.bundle.min.mjs";

ort.env.wasm.numThreads = 1; // more need headers that a plain server does not send
ort.env.logLevel = "error";

/** The function that embeds the pixels of a photo, once everything is loaded. */
export async function loadEncoder({ encoder, preprocessing }) {
  const session = await ort.InferenceSession.create(`./${encoder.file}`, { executionProviders: ["wasm"] });
  return async (pixels) => {
    const images = new ort.Tensor("float32", normalised(pixels, preprocessing), [1, 3, pixels.height, pixels.width]);
    const outputs = await session.run({ [encoder.input]: images });
    return Float32Array.from(outputs[encoder.output].data);
  };
}

/** Pixels times `scale`, less `mean`, divided by `std`, a channel after another. */
function normalised({ data, width, height }, { scale, mean, std }) {
  const size = width * height;
  const values = new Float32Array(3 * size);
  for (let channel = 0; channel < 3; channel++) {
    const factor = Math.fround(scale / std[channel]);
    const summand = Math.fround(-mean[channel] / std[channel]);
    for (let place = 0; place < size; place++) {
      values[channel * size + place] = Math.fround(data[4 * place + channel] * factor) + summand;
    }
  }
  return values;
}
