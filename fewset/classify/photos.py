"""What users call photos, in one form: a folder, a zip file, paths, Pillow images or arrays of pixels.

Nothing is decoded here; a `Photo` is a name and a way to its bytes or pixels.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from fewset.data.images.decoding import SUFFIXES, as_images
from fewset.data.images.importers.folder import entries
from fewset.data.images.sources import check_size, open_source
from fewset.runtime.errors import UserError

Pixels = bytes | np.ndarray | Image.Image


class Photo(NamedTuple):
    """A photo that nobody has opened yet."""

    name: str
    """Where it is from: a path, a path inside a folder or zip file, or "photo 3"."""
    read: Callable[[], Pixels]
    """May raise `OSError`."""


def is_photos(photos: Any) -> bool:
    """Whether these are photos; otherwise they are rows of features, for scikit-learn to check.

    Told by the type of the whole, or of its first element: a 2-D array of numbers is always features.
    """
    if isinstance(photos, str | PathLike | Image.Image):
        return True
    if getattr(photos, "ndim", 1) != 1:
        return bool(photos.ndim == 4)
    try:
        first = next(iter(photos))
    except (StopIteration, TypeError):
        return False
    return isinstance(first, str | PathLike | Image.Image) or (
        isinstance(first, np.ndarray) and first.ndim >= 2
    )


@contextmanager
def opened_photos(photos: Any) -> Iterator[Sequence[Photo]]:
    """The photos of a folder or zip file (all that are in it), or those that are listed."""
    if isinstance(photos, str | PathLike):
        path = Path(fspath(photos))
        if path.suffix.lower() in SUFFIXES:
            yield [_file(path)]
            return
        with open_source(path) as source:
            files = [file for file in source.files if file.lower().endswith(SUFFIXES)]
            if not files:
                raise UserError(f"there are no photos in {path}; expected files {', '.join(SUFFIXES)}")
            yield [Photo(file, _later(source.read, file)) for file in files]
    elif isinstance(photos, Image.Image):
        raise UserError("got one image, expected a sequence of them; put it into a list: [image]")
    else:
        yield _listed(photos)


@contextmanager
def opened_classes(folder: str | PathLike[str]) -> Iterator[tuple[Sequence[Photo], list[str]]]:
    """The photos of a folder (or zip file) with a folder a class, and the class of each."""
    with open_source(Path(fspath(folder))) as source:
        found = entries(source)
        splits = sorted({entry.split for entry in found if entry.split is not None})
        if splits:
            raise UserError(
                f"{source.path} has the splits {', '.join(splits)}, expected a folder a class; take one of "
                f"them: {source.path / splits[-1]}"
            )
        if not found:
            raise UserError(
                f"there are no photos in {source.path}; expected a folder a class with files "
                f"{', '.join(SUFFIXES)} in it"
            )
        photos = [Photo(entry.file, _later(source.read, entry.file)) for entry in found]
        yield photos, [entry.class_name for entry in found]


def _listed(photos: Iterable[Any]) -> list[Photo]:
    if getattr(photos, "ndim", 1) == 4:
        photos = as_images(photos, "X")
    return [_one(photo, number) for number, photo in enumerate(photos)]


def _one(photo: Any, number: int) -> Photo:
    if isinstance(photo, str | PathLike):
        return _file(Path(fspath(photo)))
    name = f"photo {number}"
    if isinstance(photo, Image.Image):
        return Photo(getattr(photo, "filename", "") or name, lambda: photo)
    if isinstance(photo, np.ndarray) and photo.dtype == np.uint8 and photo.ndim in (2, 3):
        return Photo(name, lambda: photo)
    got = f"{photo.dtype} of shape {photo.shape}" if isinstance(photo, np.ndarray) else type(photo).__name__
    raise UserError(
        f"{name} is {got}; expected a path, a Pillow image, or an array of pixels (uint8; height, width, 3)"
    )


def _file(path: Path) -> Photo:
    def read() -> bytes:
        check_size(path.stat().st_size)
        return path.read_bytes()

    return Photo(str(path), read)


def _later(read: Callable[[str], bytes], file: str) -> Callable[[], bytes]:
    return lambda: read(file)
