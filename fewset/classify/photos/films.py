"""Films: frames at regular intervals, decoded by PyAV."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any

from PIL import Image

from fewset.core.extras import import_extra
from fewset.io.reading import parsing

SUFFIXES = (".mp4", ".mov", ".m4v", ".avi", ".mkv", ".webm", ".mpg", ".mpeg", ".3gp", ".mts", ".wmv")
_FAR = 10.0
"""Seconds from one frame to the next from which on seeking is quicker than decoding what is between."""
_HELD = 1.0
"""Seconds for which the last frame is shown, at most."""
_ROUNDING = 1e-3
_MICROSECONDS = 1e6


def is_film(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.is_dir()


def frame_times(path: Path, every: float) -> list[float]:
    """The times of the frames in seconds: 0 and each multiple of `every` before the end."""
    with parsing(path), _opened(path) as (container, stream):
        if stream.duration is not None:
            end = float(stream.duration * stream.time_base)
        elif container.duration is not None:
            end = container.duration / _MICROSECONDS
        else:  # as browsers record: the last packet says
            stamps = (packet.pts for packet in container.demux(stream))
            last = max((stamp for stamp in stamps if stamp is not None), default=0)
            end = float(last * stream.time_base) - _start(stream)
    return [round(number * every, 6) for number in range(max(1, ceil(end / every - _ROUNDING)))]


def frames(path: Path, times: Sequence[float], least: int) -> Iterator[Image.Image]:
    """The frames that are shown at these times, which ascend; fewer where the film ends before.

    They are upright, and reduced to twice `least` pixels of the shorter side, as large photos are.
    """
    with parsing(path), _opened(path) as (container, stream):
        start = _start(stream)

        def seconds(frame: Any) -> float:
            return float(frame.time) - start

        decoded = container.decode(stream)
        shown, coming = None, next(decoded, None)
        for time in times:
            if coming is not None and time - seconds(coming) > _FAR:
                container.seek(round((time + start) / stream.time_base), stream=stream)
                decoded = container.decode(stream)
                shown, coming = None, next(decoded, None)
            while coming is not None and (shown is None or seconds(coming) <= time + _ROUNDING):
                shown, coming = coming, next(decoded, None)
            if shown is None or (coming is None and time - seconds(shown) > _HELD):
                return
            yield _image(shown, least)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """The film and its first video stream."""
    with import_extra("av", "video").open(str(path)) as container:
        if not container.streams.video:
            raise ValueError("it has no pictures")
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        limit = Image.MAX_IMAGE_PIXELS
        if limit is not None and stream.width * stream.height > limit:
            raise ValueError(f"{stream.width} x {stream.height} pixels are more than the limit of {limit:,}")
        yield container, stream


def _start(stream: Any) -> float:
    return float((stream.start_time or 0) * stream.time_base)


def _image(frame: Any, least: int) -> Image.Image:
    factor = max(1, min(frame.width, frame.height) // (2 * least))
    small = frame.reformat(frame.width // factor, frame.height // factor, "rgb24", interpolation="AREA")
    image: Image.Image = small.to_image()
    return image.rotate(frame.rotation, expand=True) if frame.rotation else image
