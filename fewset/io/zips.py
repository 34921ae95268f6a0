"""Zip files that somebody else may have written: whatever is wrong with one is an `OSError`.

A member may claim any size, and hold another. No more is read than it claims, in pieces, and only what grows
no more than a thousandfold while it is read: stored and deflated members.
"""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from fewset.io.reading import regular_file

_BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def open_zip(path: Path) -> zipfile.ZipFile:
    """A zip file, opened for reading."""
    try:
        return zipfile.ZipFile(regular_file(path))
    except OSError:
        raise
    except Exception as error:  # a damaged file makes zipfile raise almost anything
        raise OSError(f"it is not a complete zip file ({error or type(error).__name__})") from error


@contextmanager
def open_member(archive: zipfile.ZipFile, name: str) -> Iterator[IO[bytes]]:
    """A member, to be read piece by piece; whatever goes wrong in the block is an `OSError`."""
    try:
        if archive.getinfo(name).compress_type not in _BOUNDED:
            raise OSError("it is packed in a way that is not read; pack it anew, deflated or stored")
        with archive.open(name) as member:
            yield member
    except (OSError, ValueError):
        raise
    except Exception as error:
        raise OSError(f"cannot be read from the zip file: {error or type(error).__name__}") from error


def read_member(archive: zipfile.ZipFile, name: str, largest: int) -> bytes:
    """The content of a member of at most so many bytes; threads may share an archive."""
    size = archive.getinfo(name).file_size
    if size > largest:
        raise OSError(f"file of {size} bytes, more than the limit of {largest}")
    with open_member(archive, name) as member:
        content = member.read()
    if len(content) != size:
        raise OSError(f"cannot be read from the zip file: {len(content)} bytes, but it claims {size}")
    return content


def leads_out(name: str) -> bool:
    """Whether the name of a member is a path to somewhere else, once it is unpacked."""
    path = PurePosixPath(name.replace("\\", "/"))
    return path.is_absolute() or ".." in path.parts or name[1:2] == ":"
