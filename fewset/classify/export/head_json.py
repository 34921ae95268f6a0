"""`head.json`: all that a program needs beside the encoder to answer as the classifier does.

=================  ========================================================================================
``classes``        the labels, in the order of the probabilities
``none``           what is answered for a photo that is none of these, where its closeness is below
                   ``threshold``, which is null where nothing can be said; ``reject``: whether the
                   classifier does so unless it is asked otherwise
``encoder``        file, names of its input and output, digest
``preprocessing``  what is done to a photo (see below)
``head``           power, shift, weight, bias, temperature
``refit``          power, strength and scale of the ridge regression by which new classes may be added
``support``        the labelled photos: features, label (a number into ``classes``), name, thumbnail (JPEG)
=================  ========================================================================================

An array is a table with ``dtype``, ``shape`` and ``data``: its numbers in base64, little-endian, row by row.
"""

from base64 import b64encode
from math import isfinite
from typing import Any

import numpy as np

from fewset import __version__
from fewset.classify.export.tracing import parts_of
from fewset.classify.heads import ridge
from fewset.classify.labels import none_label
from fewset.classify.model import Learned
from fewset.classify.trust.rejection import SHARE
from fewset.core.names import one_line
from fewset.encoders import Encoder
from fewset.encoders.onnx_rows import IMAGES, ROWS
from fewset.encoders.preprocessing import FILTERS, Preprocessing

FORMAT = 1
ENCODER_FILE = "encoder.onnx"


def head_description(learned: Learned, encoder: Encoder, share: float | None) -> dict[str, Any]:
    """The whole of `head.json`."""
    support, linear = learned.support, learned.linear
    return {
        **summary(learned, encoder, share),
        "head": {
            "name": learned.head,
            "power": linear.power,
            "shift": _array(linear.shift),
            "weight": _array(linear.weight),
            "bias": _array(linear.bias),
            "temperature": linear.temperature,
        },
        "refit": {
            "power": ridge.RidgeHead.power,
            "strength": ridge.STRENGTH,
            "scale": ridge.SCALE,
        },
        "support": {
            "features": _array(support.features),
            "labels": support.labels.tolist(),
            "names": [_file_name(name) for name in support.names],
            "thumbnails": [b64encode(thumbnail).decode() for thumbnail in support.thumbnails],
        },
    }


def summary(learned: Learned, encoder: Encoder, share: float | None) -> dict[str, Any]:
    """What it is about, without the numbers: a joined file carries this as its metadata."""
    limit = learned.threshold(SHARE if share is None else share)
    return {
        "format": FORMAT,
        "fewset": __version__,
        "classes": learned.support.classes.tolist(),
        "none": none_label(learned.support.classes),
        "reject": share is not None,
        "threshold": limit if isfinite(limit) else None,
        "encoder": {
            "file": ENCODER_FILE,
            "input": IMAGES,
            "output": ROWS,
            "name": _file_name(encoder.id),
            "digest": encoder.digest,
        },
        "preprocessing": _preprocessing(parts_of(encoder).preprocessing),
    }


def _preprocessing(settings: Preprocessing) -> dict[str, Any]:
    names = {number: name for name, number in FILTERS.items()}
    return {
        "height": settings.height,
        "width": settings.width,
        "resize": settings.resize,
        "filter": names[settings.resample],
        "least": settings.least,
        "scale": settings.scale,
        "mean": settings.mean,
        "std": settings.std,
    }


def _array(values: np.ndarray) -> dict[str, Any]:
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return {
        "dtype": values.dtype.name,
        "shape": list(values.shape),
        "data": b64encode(little.tobytes()).decode(),
    }


def _file_name(path: str) -> str:
    """The last part: where a file lay on this machine is nobody's business."""
    return one_line(path.replace("\\", "/").rpartition("/")[2])
