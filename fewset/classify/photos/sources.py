"""Photos in one form, from a folder, a zip file, a table, paths, Pillow images or arrays of pixels.

Nothing is decoded here; a `Photo` is a name and a way to its bytes or pixels.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from os.path import abspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from fewset.core.errors import UserError
from fewset.data.images.decoding import SUFFIXES, as_images
from fewset.data.images.importers.csv import table_rows
from fewset.data.images.importers.folder import entries
from fewset.data.images.sources import Source, open_source, read_image_file, warn_of_left_out

Pixels = bytes | np.ndarray | Image.Image
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
    """An iterable without a length as a list, which can be read more than once; anything else as it is."""
    values = list(photos) if isinstance(photos, Iterable) and not isinstance(photos, Sized) else photos
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
            yield [_one(path, 0)]
            return
        with open_source(path) as source:
            yield [Photo(file, partial(source.read, file)) for file in _photo_files(source)]
    elif isinstance(photos, Image.Image):
        raise UserError("got one image, expected a sequence of them; put it into a list: [image]")
    else:
        images = as_images(photos, "X") if getattr(photos, "ndim", 1) == 4 else photos
        yield [_one(photo, number) for number, photo in enumerate(images)]


@dataclass(frozen=True)
class Listing:
    """Photos as their names alone, until they are needed: a million of them take little memory."""

    names: list[str]
    """Paths; the path of a photo in a zip file continues inside it."""
    archives: list[Source | None]
    """The zip file that each photo is in; None for a file of its own."""

    def __len__(self) -> int:
        return len(self.names)

    def photos(self, first: int, last: int) -> Iterator[Photo]:
        """Those from index `first` to `last` (excluded)."""
        for name, archive in zip(self.names[first:last], self.archives[first:last], strict=True):
            if archive is None:
                yield Photo(name, partial(read_photo, name))
            else:
                yield Photo(name, partial(archive.read, name.removeprefix(f"{archive.path}/")))

    def state(self, number: int) -> State:
        """The `file_state` of a photo, or of the zip file that it is in."""
        archive = self.archives[number]
        return file_state(archive.path if archive else self.names[number])


@contextmanager
def opened_paths(paths: Sequence[Path]) -> Iterator[Listing]:
    """All photos of folders, zip files, tables (CSV with a column `path`) and single files, each once."""
    with ExitStack() as stack:
        found: dict[str, tuple[str, Source | None]] = {}
        for path in paths:
            names, archive = _names(path, stack)
            for name in names:
                found.setdefault(abspath(name), (name, archive))  # noqa: PTH100, one may have two spellings
        yield Listing([name for name, _ in found.values()], [archive for _, archive in found.values()])


@contextmanager
def opened_classes(folder: str | PathLike[str]) -> Iterator[tuple[Sequence[Photo], list[str]]]:
    """Photos and the class of each: of a folder or zip file with a folder a class, or of a CSV file."""
    path = Path(fspath(folder))
    if _is_table(path):
        rows = _table(path, ("path", "label"), ("group",))
        photos = [Photo(name, partial(read_photo, path.parent / name), group) for name, _, group in rows]
        yield photos, [label for _, label, _ in rows]
        return
    if not path.exists():
        raise UserError(
            f"{path} does not exist; expected a folder with a folder a class, a zip file of that, or a CSV "
            "file"
        )
    with open_source(path) as source:
        found = entries(source)
        warn_of_left_out(source)
        if not found:
            raise UserError(
                f"there are no photos in {source.path}; expected a folder a class with files "
                f"{', '.join(SUFFIXES)} in it"
            )
        for entry in found:
            if entry.split is not None:
                raise UserError(
                    f"{source.path} has splits, expected a folder a class; take one of them: "
                    f"{source.path / entry.split}"
                )
            if entry.group is not None:
                raise UserError(
                    f"{entry.file} in {source.path} is two folders deep, expected a folder a class; move "
                    "the folders of the classes side by side"
                )
        photos = [Photo(entry.file, partial(source.read, entry.file)) for entry in found]
        yield photos, [entry.class_name for entry in found]


def read_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files that paths name, and those that tables among them list: no output may replace them."""
    for path in paths:
        yield path
        if _is_table(path) and path.is_file():
            yield from (path.parent / name for (name,) in _table(path, ("path",)))


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


def _names(path: Path, stack: ExitStack) -> tuple[Iterable[str], Source | None]:
    """The photos at a path, and the zip file that they are in, which stays open until `stack` ends."""
    if _is_table(path):
        return (str(path.parent / name) for (name,) in _table(path, ("path",))), None
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        return [str(path)], None
    if not path.exists():
        raise UserError(f"{path} does not exist; expected a folder, a zip file, a CSV file or a photo")
    source = stack.enter_context(open_source(path))
    if path.is_dir():
        return [str(path / file) for file in _photo_files(source)], None
    return [f"{path}/{file}" for file in _photo_files(source)], source


def _photo_files(source: Source) -> list[str]:
    files = source.images()
    warn_of_left_out(source)
    if not files:
        raise UserError(f"there are no photos in {source.path}; expected files {', '.join(SUFFIXES)}")
    return files


def _is_table(path: Path) -> bool:
    return path.suffix.lower() == ".csv" and not path.is_dir()


def _table(path: Path, columns: Sequence[str], optional: Sequence[str] = ()) -> list[list[str]]:
    if not path.is_file():
        raise UserError(f"there is no file {path}; expected a CSV file with the columns {', '.join(columns)}")
    try:
        content = read_image_file(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    rows = [cells for _, cells in table_rows(content, str(path), columns, optional=optional)]
    if not rows:
        raise UserError(f"{path} lists no photos; expected a line for each under {','.join(columns)!r}")
    return rows


def _one(photo: Any, number: int) -> Photo:
    if isinstance(photo, str | PathLike):
        return Photo(str(Path(photo)), partial(read_photo, photo))
    name = f"photo {number}"
    if isinstance(photo, Image.Image):
        return Photo(getattr(photo, "filename", "") or name, lambda: photo)
    if isinstance(photo, np.ndarray) and photo.dtype == np.uint8 and photo.ndim in (2, 3):
        return Photo(name, lambda: photo)
    got = f"{photo.dtype} of shape {photo.shape}" if isinstance(photo, np.ndarray) else type(photo).__name__
    raise UserError(
        f"{name} is {got}; expected a path, a Pillow image, or an array of pixels (uint8; height, width, 3)"
    )
