"""Files of a directory, or of a zip file as it is, listed and read in the same way."""

import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Protocol

from fewset.errors import UserError

# An entry of a zip file may grow a thousandfold; no image file is this large.
_LARGEST = 2**28


class Source(Protocol):
    path: Path
    files: list[str]
    """Sorted, relative to the source, with '/'. Hidden files and those that macOS adds to zips are left out."""

    def read(self, file: str) -> bytes:
        """The bytes of a file, or `OSError` whatever is wrong; for several threads at once."""


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    if path.is_dir():
        yield _Directory(path)
    elif not path.exists():
        raise UserError(f"{path} does not exist; expected a directory or a zip file")
    else:
        try:
            archive = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            raise UserError(f"{path} is neither a directory nor a complete zip file: {error}") from error
        with archive:
            yield _Zip(path, archive)


class _Directory:
    def __init__(self, path: Path) -> None:
        self.path = path
        # Links are followed: a set is often a folder of links to the classes of a larger one.
        walk = os.walk(path, followlinks=True)
        files = (
            Path(folder, name).relative_to(path).as_posix() for folder, _, names in walk for name in names
        )
        self.files = sorted(file for file in files if not _ignored(file))

    def read(self, file: str) -> bytes:
        _check_size((self.path / file).stat().st_size)
        return (self.path / file).read_bytes()


class _Zip:
    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self.archive = archive
        self.files = sorted(
            {name for name in archive.namelist() if not name.endswith("/") and not _ignored(name)}
        )

    def read(self, file: str) -> bytes:
        # `ZipFile` guards its file handle with a lock of its own, so threads may share it.
        try:
            _check_size(self.archive.getinfo(file).file_size)
            return self.archive.read(file)
        # RuntimeError: encrypted, or an unknown kind of compression (NotImplementedError).
        except (EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise OSError(f"cannot be read from the zip file: {error}") from error


def _ignored(file: str) -> bool:
    return any(part.startswith(".") or part == "__MACOSX" for part in PurePosixPath(file).parts)


def _check_size(size: int) -> None:
    if size > _LARGEST:
        raise OSError(f"file of {size} bytes, more than the limit of {_LARGEST}")
