"""Classify photos with the file of `fewset export my.fewset -o my.onnx`: classify_photos.py my.onnx PHOTO"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(sys.argv[1])
about = json.loads(session.get_modelmeta().custom_metadata_map["fewset"])


def pixels(photo, height, width, resize, filter, least, **_):  # the normalisation is part of the file
    image = Image.open(photo)
    image.draft(None, (2 * least, 2 * least))  # a large JPEG file is decoded smaller
    image = ImageOps.exif_transpose(image).convert("RGB")
    image = image.reduce(max(1, min(image.size) // (2 * least)))
    if isinstance(resize, int):  # the shorter side; else height and width
        resize = [resize * image.height // min(image.size), resize * image.width // min(image.size)]
    image = image.resize(resize[::-1], Image.Resampling[filter.upper()])
    top, left = (resize[0] - height) // 2, (resize[1] - width) // 2
    return np.asarray(image.crop((left, top, left + width, top + height)))


for photo in sys.argv[2:]:
    batch = pixels(photo, **about["preprocessing"])[np.newaxis]
    (probabilities,), (closeness,), _ = session.run(None, {"pixels": batch})
    none = about["reject"] and about["threshold"] is not None and closeness < about["threshold"]
    best = f"{about['classes'][probabilities.argmax()]} ({probabilities.max():.4f})"
    print(f"{photo}: {about['none'] if none else best}")
