"""Files of a directory or of a zip file, listed and read in the same way."""

import os
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from fewset.core.errors import UserError
from fewset.core.names import one_line
from fewset.data.images.decoding import SUFFIXES, is_image
from fewset.io.os_errors import as_user_error
from fewset.io.pickles import read_pickle
from fewset.io.reading import Damaged, open_file, parsing, read_bytes
from fewset.io.zips import leads_out, open_member, open_zip, read_member

# An entry of a zip file may grow a thousandfold when it is read; no image file is this large.
LARGEST = 2**28
_INSPECTED, _BEGINNING = 1000, 16  # files without the suffix of an image, and bytes of each
_NAMED = 5
_NO_SUFFIX = f"an image, but its name does not end in {', '.join(SUFFIXES)}"


@dataclass(frozen=True)
class Source:
    path: Path
    files: list[str]
    """Sorted, relative to the source, with '/'; without hidden files and the additions of macOS."""
    read: Callable[[str], bytes]
    """Returns the bytes of a file, or raises `OSError`; threads may call it at the same time."""
    open: Callable[[str], AbstractContextManager[IO[bytes]]]
    """Opens a file of any size."""
    folders: tuple[str, ...] = ()
    """All folders, sorted, as `files` are."""
    outside: tuple[str, ...] = ()
    """Members of a zip file whose paths lead out of it, one line each with the reason."""

    @contextmanager
    def parsed(self, file: str) -> Iterator[IO[bytes]]:
        """An opened file; any error of a parser in the block becomes a `UserError` about the file."""
        place = f"{file} in {self.path}"
        try:
            with self.open(file) as opened, parsing(Path(place)):
                yield opened
        except Damaged as error:
            raise UserError(f"{place} does not have the expected content: it {error.reason}") from error

    @contextmanager
    def unpickled(self, file: str) -> Iterator[Any]:
        """The content of a pickle file; any error in the block becomes a `UserError` about the file."""
        with self.parsed(file) as opened:
            yield read_pickle(opened, f"{file} in {self.path}")

    def lines(self, file: str) -> list[str]:
        """The lines of a text file, without the empty ones."""
        text = self.content(file).decode("utf-8", errors="replace")
        return [line.strip() for line in text.splitlines() if line.strip()]

    def content(self, file: str) -> bytes:
        """The bytes of a file, or a `UserError`."""
        try:
            return self.read(file)
        except OSError as error:
            raise UserError(f"{file} in {self.path} cannot be read: {error}") from error

    def images(self) -> list[str]:
        """The files whose names end like those of images."""
        return [file for file in self.files if file.lower().endswith(SUFFIXES)]

    def left_out(self) -> list[str]:
        """Skipped images, one line each with the reason."""
        lines = list(self.outside)
        others = [file for file in self.files if not file.lower().endswith(SUFFIXES)]
        for file in others[:_INSPECTED]:
            with suppress(OSError, ValueError), self.open(file) as opened:
                if is_image(opened.read(_BEGINNING)):
                    lines.append(f"{one_line(file)}: {_NO_SUFFIX}")
        return lines

    def folder_of(self, *files: str) -> PurePosixPath | None:
        """The first folder that has all these files (paths relative to it), or None."""
        existing = set(self.files)
        for file in self.files:
            if f"/{file}".endswith(f"/{files[0]}"):
                folder = PurePosixPath(file.removesuffix(files[0]))
                if all(str(folder / name) in existing for name in files):
                    return folder
        return None


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    if path.is_dir():
        yield _directory(path)
        return
    if not path.exists():
        raise UserError(f"{path} does not exist; expected a directory or a zip file")
    try:
        archive = open_zip(path)
    except OSError as error:
        raise UserError(f"{path} is neither a directory nor a complete zip file: {error}") from error
    with archive:
        yield _zip(path, archive)


def warn_of_left_out(source: Source) -> None:
    """Warn of images that are left out, with the names of the first ones."""
    lines = source.left_out()
    if lines:
        more = "; …" if len(lines) > _NAMED else ""
        warnings.warn(
            f"{source.path}: left out {len(lines)} images: {'; '.join(lines[:_NAMED])}{more}", stacklevel=3
        )


def _directory(path: Path) -> Source:
    found = [(folder.relative_to(path), names) for folder, names in walk(path)]
    files = _visible((folder / name).as_posix() for folder, names in found for name in names)
    return Source(
        path,
        files,
        lambda file: read_image_file(path / file),
        lambda file: open_file(path / file),
        tuple(sorted(folder.as_posix() for folder, _ in found if folder.parts)),
    )


def walk(path: Path) -> Iterator[tuple[Path, list[str]]]:
    """A folder and the folders within it, sorted, each with the names of its files.

    Links are followed, since a set is often a folder of links to the classes of a larger one. A link to a
    folder that contains it, or that another link leads to, is skipped, so that circles of links end.
    A folder that cannot be read is an error: otherwise a class would be missing.
    """

    def fail(error: OSError) -> None:
        raise as_user_error(error) or error

    targets: set[Path] = set()
    for folder, folders, names in os.walk(path, followlinks=True, onerror=fail):
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        for link in filter(Path.is_symlink, [Path(folder, name) for name in folders]):
            target = link.resolve()
            if target in targets or link.parent.resolve().is_relative_to(target):
                folders.remove(link.name)
            targets.add(target)
        yield Path(folder), sorted(names)


def _zip(path: Path, archive: zipfile.ZipFile) -> Source:
    entries = archive.namelist()
    names = {name for name in entries if not name.endswith("/")}
    outside = sorted(filter(leads_out, names))
    return Source(
        path,
        _visible(names.difference(outside)),
        lambda file: read_member(archive, file, LARGEST),
        lambda file: open_member(archive, file),
        tuple(_visible(name.rstrip("/") for name in entries if name.endswith("/") and not leads_out(name))),
        tuple(f"{one_line(name)}: leads out of the zip file" for name in outside),
    )


def _visible(files: Iterable[str]) -> list[str]:
    return sorted({file for file in files if not any(map(is_hidden, PurePosixPath(file).parts))})


def is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def read_image_file(path: Path) -> bytes:
    """The bytes of a file; an `OSError` if it is not a regular file or too large for an image."""
    return read_bytes(path, LARGEST)
