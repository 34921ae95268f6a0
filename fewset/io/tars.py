"""Uncompressed tar files, such as the shards of WebDataset: listed member by member, read at any place.

Nothing is unpacked, and no more than one header is in memory.
"""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fewset.io.reading import Damaged, open_file, parsing


class Member(NamedTuple):
    """A regular file in a tar file."""

    name: str
    start: int
    size: int


def tar_members(path: Path) -> Iterator[Member]:
    """The regular files in a tar file, in its order."""
    with open_file(path) as file, parsing(path), tarfile.open(fileobj=file, mode="r:") as archive:
        while (found := archive.next()) is not None:
            vars(archive)["members"] = []  # else it keeps the headers of all
            if found.isreg() and not found.issparse():
                yield Member(found.name, found.offset_data, found.size)
        file.seek(archive.offset)
        if any(file.read(tarfile.BLOCKSIZE)):  # tarfile takes a damaged header for the end
            raise Damaged(path, f"is damaged after {archive.offset} bytes")


def read_tar_member(path: Path, member: Member, largest: int) -> bytes:
    """The content of a member of at most `largest` bytes; any number of threads may read."""
    if member.size > largest:
        raise Damaged(path / member.name, f"has {member.size} bytes, more than the limit of {largest}")
    with open_file(path) as file:
        file.seek(member.start)
        content = file.read(member.size)
    if len(content) != member.size:
        raise Damaged(path / member.name, f"has {len(content)} bytes, but claims {member.size}")
    return content
