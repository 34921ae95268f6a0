"""Zip files that others may have written: a damaged one is `Damaged`.

A member may claim any size, and hold another. No more is read than it claims, in pieces, and only stored and
deflated members, which grow no more than a thousandfold.
"""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from fewset.io.reading import Damaged, parsing, regular_file

_BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def open_zip(path: Path) -> zipfile.ZipFile:
    """A zip file, opened for reading."""
    with parsing(path):
        return zipfile.ZipFile(regular_file(path))


@contextmanager
def open_member(archive: zipfile.ZipFile, name: str) -> Iterator[IO[bytes]]:
    """A member, to be read piece by piece; any error in the block means that it is damaged."""
    path = member_path(archive, name)
    with parsing(path):
        if archive.getinfo(name).compress_type not in _BOUNDED:
            raise Damaged(
                path, "has a compression that fewset does not read; pack it again, deflated or stored"
            )
        with archive.open(name) as member:
            yield member


def read_member(archive: zipfile.ZipFile, name: str, largest: int) -> bytes:
    """The content of a member of at most `largest` bytes; threads may share an archive."""
    path, size = member_path(archive, name), archive.getinfo(name).file_size
    if size > largest:
        raise Damaged(path, f"is a file of {size} bytes, more than the limit of {largest}")
    with open_member(archive, name) as member:
        content = member.read()
    if len(content) != size:
        raise Damaged(path, f"has {len(content)} bytes, but claims {size}")
    return content


def member_path(archive: zipfile.ZipFile, name: str) -> Path:
    """How errors name a member: like a file in a directory."""
    return Path(archive.filename or "") / name


def leads_out(name: str) -> bool:
    """Whether a member of this name would be unpacked outside of the directory."""
    path = PurePosixPath(name.replace("\\", "/"))
    return path.is_absolute() or ".." in path.parts or name[1:2] == ":"
