"""The photos of one process of many, which do not know of each other: names as a stream, each in one shard.

A name is in the shard that its checksum says, so that a process needs no list of all names, and photos that
are added later change nothing for the others. A tar file is in one shard as a whole.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from zlib import crc32

from fewset.classify.photos.sources import Photo, read_photo
from fewset.classify.photos.tables import is_table, streamed_table
from fewset.compute import distributed
from fewset.core.errors import UserError
from fewset.data.images.decoding import SUFFIXES, Box
from fewset.data.images.sources import LARGEST, is_hidden, walk
from fewset.io.parquet import SUFFIX as PARQUET
from fewset.io.parquet import read_texts
from fewset.io.reading import remedy
from fewset.io.tars import read_tar_member, tar_members


@dataclass(frozen=True)
class Shard:
    """One of the equal parts into which photos are divided."""

    number: int = 0
    count: int = 1

    def has(self, name: str) -> bool:
        """Whether a photo of this name belongs to the shard."""
        return crc32(name.encode(errors="surrogateescape")) % self.count == self.number

    def __str__(self) -> str:
        return f"{self.number:05}-of-{self.count:05}"


def parse_shard(text: str | None) -> Shard:
    """The shard of `--shard I/N`; under torchrun each process takes an equal part of it."""
    found = re.fullmatch(r"(\d{1,7})/(\d{1,7})", text or "0/1", re.ASCII)
    number, count = map(int, found.groups()) if found else (0, 0)
    if number >= count:
        raise UserError(f"--shard is {text!r}, expected I/N with I from 0 to N - 1, such as 0/8")
    world = distributed.world_size()
    return Shard(number * world + distributed.rank(), count * world)


def shard_photos(paths: Sequence[Path], shard: Shard) -> Iterator[Photo]:
    """The photos of a shard, in the same order each time.

    Paths are photos, folders, CSV and Parquet files with a column `path` (relative to their folder), and tar
    files. A photo that is listed twice is there twice.
    """
    tars = 0
    for path in paths:
        if not path.exists():
            raise UserError(
                f"{path} does not exist; expected a folder, a CSV or Parquet file with a column path, a tar "
                "file or a photo"
            )
        if path.suffix.lower() == ".tar":
            if tars % shard.count == shard.number:
                yield from _in_tar(path)
            tars += 1
        else:
            empty = True
            for name, file, box in _photos(path):
                empty = False
                if shard.has(name):
                    yield Photo(name, partial(read_photo, file), box=box)
            if empty:
                raise UserError(f"there are no photos in {path}; expected files {', '.join(SUFFIXES)}")


def _photos(path: Path) -> Iterator[tuple[str, str | Path, Box | None]]:
    """The name, the file and the box of each photo."""
    if path.is_dir():
        files = (str(folder / name) for folder, names in walk(path) for name in names if not is_hidden(name))
        return ((file, file, None) for file in files if file.lower().endswith(SUFFIXES))
    if path.suffix.lower() in SUFFIXES:
        return iter([(str(path), path, None)])
    if is_table(path):
        return ((str(path.parent / row.name), row.file, row.box) for row in streamed_table(path))
    if path.suffix.lower() == PARQUET:
        folder = "" if path.parent == Path() else str(path.parent)
        files = (os.path.join(folder, name) for name in _parquet_paths(path))  # noqa: PTH118, quicker
        return ((file, file, None) for file in files)
    raise UserError(
        f"{path} is no folder, CSV or Parquet file, uncompressed tar file or photo; unpack it, or give it to "
        "`fewset predict` with --csv"
    )


def _parquet_paths(path: Path) -> Iterator[str]:
    with remedy("write it again, with a text in the column path of each row"):
        yield from read_texts(path, "path")


def _in_tar(path: Path) -> Iterator[Photo]:
    with remedy("get it again, or leave it out"):
        for member in tar_members(path):
            if member.name.lower().endswith(SUFFIXES) and not is_hidden(PurePosixPath(member.name).name):
                yield Photo(f"{path}/{member.name}", partial(read_tar_member, path, member, LARGEST))
