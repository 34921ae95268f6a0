"""Photos in one form, from a folder, a zip file, a table, paths, Pillow images or arrays of pixels.

Nothing is decoded here; a `Photo` is a name and a way to its bytes or pixels.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from os import PathLike, fspath
from os.path import abspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from fewset.classify.photos.films import SUFFIXES as FILM_SUFFIXES
from fewset.classify.photos.films import frame_times, frames, is_film
from fewset.classify.photos.tables import Listed, is_table, read_table
from fewset.core.errors import UserError
from fewset.core.names import one_line
from fewset.data.images.decoding import SUFFIXES, Box, as_images
from fewset.data.images.sources import Source, open_source, read_image_file, warn_of_left_out

Pixels = bytes | np.ndarray | Image.Image
Part = Box | float | None
"""A box in a photo, or the time of a frame of a film in seconds; None for a whole photo."""
_NAMED = 5
State = tuple[int, int]
"""The size and the modification time of a file."""


class Photo(NamedTuple):
    """A photo that is not read yet."""

    name: str
    """Where it is from: a path, a path inside a folder or zip file, or "photo 3"."""
    read: Callable[[], Pixels]
    """May raise `OSError`."""
    group: str = ""
    """The group of the photo, such as an object or a burst; "" for a photo without one."""
    box: Box | None = None
    """The part of the photo that is meant, in pixels of the upright image; None: all of it."""


def is_photos(photos: Any) -> bool:
    """Whether these are photos, by the type of the whole or of the first element; else they are features."""
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


def as_sequence(photos: Any) -> Any:
    """An iterable without a length as a list, which can be read more than once; anything else as it is.

    Of a frame or an array with one column of paths, that column.
    """
    values: Any = list(photos) if isinstance(photos, Iterable) and not isinstance(photos, Sized) else photos
    if getattr(values, "ndim", 0) == 2 and values.shape[1] == 1 and len(values):
        column = np.asarray(values, dtype=object)[:, 0]
        values = column.tolist() if isinstance(column[0], str | PathLike) else values
    if isinstance(values, list | tuple) and not values:
        raise UserError(
            "got no photos and no rows, expected one or more; does the folder or pattern match any?"
        )
    return values


@contextmanager
def opened_photos(photos: Any) -> Iterator[Sequence[Photo]]:
    """All photos of a folder or zip file, or those of a list."""
    if isinstance(photos, str | PathLike):
        path = Path(fspath(photos))
        if path.suffix.lower() in SUFFIXES:
            yield [one_photo(path, 0)]
            return
        if is_table(path):
            yield list(map(listed_photo, read_table(path)))
            return
        with open_source(path) as source:
            yield [Photo(file, partial(source.read, file)) for file in _photo_files(source)]
    elif isinstance(photos, Image.Image):
        raise UserError("got one image, expected a sequence of them; put it into a list: [image]")
    else:
        images = as_images(photos, "X") if getattr(photos, "ndim", 1) == 4 else photos
        yield [one_photo(photo, number) for number, photo in enumerate(images)]


@dataclass(frozen=True)
class Listing:
    """Photos as their names alone, until they are needed: a million of them take little memory."""

    names: list[str]
    """Paths; the path of a photo in a zip file continues inside it. That of a part of a file says which part,
    as a media fragment: "film.mp4#t=3", "photo.jpg#xywh=0,0,50,40"."""
    archives: list[Source | None]
    """The zip file that each photo is in; None for a file."""
    parts: Mapping[int, Part]
    """The boxes in photos, and the times of frames of films in seconds."""
    least: int
    """Pixels of the shorter side that frames of films need."""

    def __len__(self) -> int:
        return len(self.names)

    def photos(self, first: int, last: int) -> Iterator[Photo]:
        """Those from index `first` to `last` (excluded)."""
        for film, numbers in groupby(range(first, min(last, len(self))), self._film):
            if film is None:
                yield from map(self._photo, numbers)
            else:
                yield from self._frames_of(Path(film), list(numbers))

    def state(self, number: int) -> State:
        """The `file_state` of a photo, or of the zip file that it is in."""
        archive = self.archives[number]
        return file_state(archive.path if archive else self._file(number))

    def _file(self, number: int) -> str:
        name = self.names[number]
        return name.rpartition("#")[0] if number in self.parts else name

    def _film(self, number: int) -> str | None:
        return self._file(number) if isinstance(self.parts.get(number), float) else None

    def _photo(self, number: int) -> Photo:
        name, archive, box = self.names[number], self.archives[number], self.parts.get(number)
        if archive is not None:
            return Photo(name, partial(archive.read, name.removeprefix(f"{archive.path}/")))
        return Photo(name, partial(read_photo, self._file(number)), box=box if isinstance(box, Box) else None)

    def _frames_of(self, film: Path, numbers: Sequence[int]) -> Iterator[Photo]:
        """Frames are decoded one after another, here, since each builds on those before it."""
        found = frames(
            film, [time for time in map(self.parts.get, numbers) if isinstance(time, float)], self.least
        )
        problem = "the film ends before"
        for number in numbers:
            try:
                image = next(found, None)
            except OSError as error:
                image, problem = None, str(error)
            yield Photo(self.names[number], partial(_frame, image, problem))


@contextmanager
def opened_paths(paths: Sequence[Path], every: float | None = None, least: int = 1) -> Iterator[Listing]:
    """All photos of folders, zip files, tables (CSV with a column `path`) and single files, each once.

    With `every`, also the frames of films, one every `every` seconds, with at least `least` pixels a side.
    """
    with ExitStack() as stack:
        found: dict[str, tuple[str, Source | None, Part]] = {}
        for path in paths:
            for name, archive, part in _found(path, every, stack):
                found.setdefault(abspath(name), (name, archive, part))  # noqa: PTH100, one may have two spellings
        photos = list(found.values())
        parts = {number: part for number, (_, _, part) in enumerate(photos) if part is not None}
        yield Listing([name for name, _, _ in photos], [archive for _, archive, _ in photos], parts, least)


def read_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files that paths name, and those that tables among them list: no output may replace them."""
    for path in paths:
        yield path
        if is_table(path) and path.is_file():
            yield from (row.file for row in read_table(path))


def check_no_photo(path: Path) -> None:
    """Raise an error for an output with the name of a photo."""
    if path.suffix.lower() in SUFFIXES:
        raise UserError(f"{path} has the name of a photo, which must not be lost; choose another name")


def file_state(path: str | Path) -> State:
    """What changes when a file is replaced; -1 where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116, what is listed may be no path at all
    except (OSError, ValueError):
        return -1, -1
    return found.st_size, found.st_mtime_ns


def read_photo(path: str | PathLike[str]) -> bytes:
    """The bytes of a file, unless it is too large for a photo."""
    return read_image_file(Path(path))


def _found(path: Path, every: float | None, stack: ExitStack) -> Iterator[tuple[str, Source | None, Part]]:
    """The photos at a path, each with the zip file that it is in, which stays open until `stack` ends."""
    if is_table(path):
        yield from ((str(path.parent / row.name), None, row.box) for row in read_table(path))
    elif path.is_file() and path.suffix.lower() in SUFFIXES:
        yield str(path), None, None
    elif is_film(path) and path.exists():
        if every is None:
            raise UserError(f"{path} is a film; give --every 1 to classify a frame of each second")
        yield from _frames(path, every)
    elif not path.exists():
        raise UserError(f"{path} does not exist; expected a folder, a zip file, a CSV file or a photo")
    else:
        source = stack.enter_context(open_source(path))
        archive = None if path.is_dir() else source
        for file in _photo_files(source, with_films=every is not None and archive is None):
            if archive is None and every is not None and is_film(path / file):
                yield from _frames(path / file, every)
            else:
                yield str(path / file) if archive is None else f"{path}/{file}", archive, None


def _frames(film: Path, every: float) -> Iterator[tuple[str, None, float]]:
    try:
        times = frame_times(film, every)
    except OSError:  # its first frame has the reason, when it is read
        times = [0.0]
    yield from ((f"{film}#t={time:.10g}", None, time) for time in times)


def _photo_files(source: Source, with_films: bool = False) -> list[str]:
    files = source.images()
    warn_of_left_out(source)
    if with_films:
        files = sorted([*files, *filter(_is_film, source.files)])
    else:
        warn_of_films(source)
    if not files:
        raise UserError(f"there are no photos in {source.path}; expected files {', '.join(SUFFIXES)}")
    return files


def _is_film(file: str) -> bool:
    return file.lower().endswith(FILM_SUFFIXES)


def warn_of_films(source: Source) -> None:
    """Warn of films, which are ignored, with the names of the first ones."""
    found = list(filter(_is_film, source.files))
    if found:
        warnings.warn(f"{source.path}: films are ignored: {named(found)}", stacklevel=4)


def named(names: Sequence[str]) -> str:
    """How many there are, and the names of the first ones."""
    more = ", …" if len(names) > _NAMED else ""
    return f"{len(names):,} ({', '.join(map(one_line, names[:_NAMED]))}{more})"


def listed_photo(row: Listed) -> Photo:
    """A photo of a table."""
    return Photo(row.name, partial(read_photo, row.file), row.group, row.box)


def _frame(image: Image.Image | None, problem: str) -> Image.Image:
    if image is None:
        raise OSError(problem)
    return image


def one_photo(photo: Any, number: int) -> Photo:
    """A photo that is a path, a Pillow image, bytes of a file, or an array of pixels; named by its number."""
    if isinstance(photo, str | PathLike):
        return Photo(str(Path(photo)), partial(read_photo, photo))
    name = f"photo {number}"
    if isinstance(photo, bytes | bytearray | memoryview):
        return Photo(name, partial(bytes, photo))
    if isinstance(photo, Image.Image):
        return Photo(getattr(photo, "filename", "") or name, lambda: photo)
    if isinstance(photo, np.ndarray) and photo.dtype == np.uint8 and photo.ndim in (2, 3):
        return Photo(name, lambda: photo)
    got = f"{photo.dtype} of shape {photo.shape}" if isinstance(photo, np.ndarray) else type(photo).__name__
    raise UserError(
        f"{name} is {got}; expected a path, a Pillow image, or an array of pixels (uint8; height, width, 3)"
    )
