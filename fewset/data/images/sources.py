"""Files of a directory, or of a zip file as it is, listed and read in the same way."""

import os
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from fewset.core.errors import UserError
from fewset.core.names import one_line
from fewset.data.images.decoding import SUFFIXES, is_image
from fewset.io.os_errors import as_user_error
from fewset.io.reading import open_file, read_bytes
from fewset.io.zips import leads_out, open_member, open_zip, read_member

# An entry of a zip file may grow a thousandfold when it is read; no image file is this large.
_LARGEST = 2**28
_LOOKED_AT, _BEGINNING = 1000, 16  # files without the name of an image, and bytes of each
_NAMED = 5
_UNNAMED = f"an image, but its name does not end in {', '.join(SUFFIXES)}"


@dataclass(frozen=True)
class Source:
    path: Path
    files: list[str]
    """Sorted, relative to the source, with '/'; without hidden files and those that macOS adds to zips."""
    read: Callable[[str], bytes]
    """The bytes of a file, or `OSError` whatever is wrong; may be called from several threads at once."""
    open: Callable[[str], AbstractContextManager[IO[bytes]]]
    """A file of any size, to be read piece by piece."""
    outside: tuple[str, ...] = ()
    """What is not among the files since it leads out of a zip file, a line each."""

    def lines(self, file: str) -> list[str]:
        """The lines of a text file, without the empty ones."""
        try:
            text = self.read(file).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{file} in {self.path} cannot be read: {error}") from error
        return [line.strip() for line in text.splitlines() if line.strip()]

    def images(self) -> list[str]:
        """The files that are images by their names."""
        return [file for file in self.files if file.lower().endswith(SUFFIXES)]

    def left_out(self) -> list[str]:
        """What an import by names leaves out though it is an image, a line each that says why."""
        others = [file for file in self.files if not file.lower().endswith(SUFFIXES)]
        found = [file for file in others[:_LOOKED_AT] if self._looks_like_an_image(file)]
        return [*self.outside, *(f"{one_line(file)}: {_UNNAMED}" for file in found)]

    def _looks_like_an_image(self, file: str) -> bool:
        try:
            with self.open(file) as opened:
                return is_image(opened.read(_BEGINNING))
        except (OSError, ValueError):
            return False

    def folder_of(self, *files: str) -> PurePosixPath | None:
        """The first folder in which all these files lie, each a path from there; None where there is none."""
        there = set(self.files)
        for file in self.files:
            if f"/{file}".endswith(f"/{files[0]}"):
                folder = PurePosixPath(file.removesuffix(files[0]))
                if all(str(folder / name) in there for name in files):
                    return folder
        return None


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    if path.is_dir():
        yield _directory(path)
    elif path.exists():
        try:
            archive = open_zip(path)
        except OSError as error:
            raise UserError(f"{path} is neither a directory nor a complete zip file: {error}") from error
        with archive:
            yield _zip(path, archive)
    else:
        raise UserError(f"{path} does not exist; expected a directory or a zip file")


def warn_of_left_out(source: Source) -> None:
    """Tell how many images are left out, and name the first of them."""
    lines = source.left_out()
    if lines:
        more = "; …" if len(lines) > _NAMED else ""
        warnings.warn(
            f"{source.path}: left out {len(lines)} images: {'; '.join(lines[:_NAMED])}{more}", stacklevel=3
        )


def _directory(path: Path) -> Source:
    names = (Path(folder, name).relative_to(path).as_posix() for folder, name in _walk(path))
    return Source(
        path, _visible(names), lambda file: read_image_file(path / file), lambda file: open_file(path / file)
    )


def _walk(path: Path) -> Iterator[tuple[str, str]]:
    """The folder and the name of every file.

    Links are followed, since a set is often a folder of links to the classes of a larger one; but none leads
    to a folder that it lies in, or that another link has led to, so that links in a circle have an end.
    A folder that cannot be read is an error: otherwise a class would be missing.
    """

    def fail(error: OSError) -> None:
        raise as_user_error(error) or error

    def identity(folder: str) -> tuple[int, int]:
        status = os.stat(folder)  # noqa: PTH116 - os.walk has strings
        return status.st_dev, status.st_ino

    linked: set[tuple[int, int]] = set()
    chains = {str(path): frozenset({identity(str(path))})}  # of each folder to come, itself and those above
    for folder, folders, names in os.walk(path, followlinks=True, onerror=fail):
        chain = chains.pop(folder)
        folders[:] = [name for name in folders if not _is_hidden(name)]
        for name in sorted(folders):
            inside = os.path.join(folder, name)  # noqa: PTH118
            itself = identity(inside)
            if os.path.islink(inside):  # noqa: PTH114
                if itself in linked or itself in chain:
                    folders.remove(name)
                    continue
                linked.add(itself)
            chains[inside] = chain | {itself}
        yield from ((folder, name) for name in names)


def _zip(path: Path, archive: zipfile.ZipFile) -> Source:
    names = {name for name in archive.namelist() if not name.endswith("/")}
    outside = sorted(filter(leads_out, names))
    return Source(
        path,
        _visible(names.difference(outside)),
        lambda file: read_member(archive, file, _LARGEST),
        lambda file: open_member(archive, file),
        tuple(f"{one_line(name)}: leads out of the zip file" for name in outside),
    )


def _visible(files: Iterable[str]) -> list[str]:
    return sorted({file for file in files if not any(map(_is_hidden, PurePosixPath(file).parts))})


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def read_image_file(path: Path) -> bytes:
    """The bytes of a file, unless it is no regular file or too large for an image: then an `OSError`."""
    return read_bytes(path, _LARGEST)
