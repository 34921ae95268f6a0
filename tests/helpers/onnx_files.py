"""ONNX files computed by onnxruntime, and the pixels that they take."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
from PIL import Image

from fewset.data.images.decoding import decode_photo
from fewset.encoders import Encoder


def run(file: Any, **inputs: np.ndarray) -> list[np.ndarray]:
    """What a file (its bytes, its path, or a graph) makes of inputs."""
    model = file.SerializeToString() if hasattr(file, "SerializeToString") else file
    outputs: list[np.ndarray] = onnxruntime.InferenceSession(model).run(None, inputs)
    return outputs


def pixels_of(images: Sequence[Image.Image], encoder: Encoder) -> np.ndarray:
    """What the encoder's network is given of photos, before their normalisation."""
    looked = [decode_photo(image, encoder.input_size) for image in images]
    return np.stack([encoder.preprocessing.pixels(image) for image in looked])  # type: ignore[attr-defined]
