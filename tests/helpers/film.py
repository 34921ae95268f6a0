"""Films for tests, written by PyAV."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image


def write_film(
    path: Path, images: Sequence[Image.Image], rate: int = 4, each: int = 1, **options: Any
) -> Path:
    """A film that shows each image for `each` frames."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w", **options) as container:
        stream = container.add_stream("mpeg4", rate=rate)
        stream.width, stream.height = images[0].size
        stream.pix_fmt, stream.bit_rate, stream.gop_size = "yuv420p", 4_000_000, 5
        for image in images:
            for _ in range(each):
                container.mux(stream.encode(av.VideoFrame.from_ndarray(np.asarray(image), format="rgb24")))
        container.mux(stream.encode())
    return path
