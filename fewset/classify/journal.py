"""The answers of a run over many photos as they come: a file that a stopped run is continued from.

The first line says what the run is: which classifier, which photos, which options. Each other line is an
answer. Lines are written in whole chunks; what a stop left of a chunk is cut off when the run goes on. Each
line ends with a checksum, so that an answer that was damaged meanwhile is not taken for another.
"""

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from fewset.runtime.errors import UserError
from fewset.runtime.files import replacing
from fewset.runtime.inside import inside
from fewset.runtime.parsing import parse
from fewset.runtime.reading import open_file, parse_json

Row = Mapping[str, Any]
"""What is said of one photo, as it goes into files."""


@dataclass(frozen=True)
class Heading:
    """What a run is. The classifier and the list of photos are given by their sha256."""

    classifier: str
    paths: tuple[str, ...]
    options: str
    photos: int
    listed: str


_NUMBER = (int, float, NoneType)
_ANSWER: dict[str, tuple[type, ...]] = {
    "file": (str,),
    "class": (str, int, float, NoneType),
    "probability": _NUMBER,
    "top": (list,),
    "closeness": _NUMBER,
    "nearest": (str, NoneType),
    "problem": (str, NoneType),
}
_WORDS = {
    "classifier": "another classifier",
    "paths": "other PATHS",
    "options": "other options",
    "photos": "other photos",
    "listed": "other photos",
}


@dataclass
class Journal:
    """An open run; `done` counts the answers that are in the file."""

    path: Path
    heading: Heading
    done: int

    @property
    def complete(self) -> bool:
        return self.done == self.heading.photos

    @property
    def log(self) -> Path:
        """Where the sorting of the photos is written down."""
        return files_beside(self.path)["log"]

    def remove(self) -> None:
        self.log.unlink(missing_ok=True)
        self.path.unlink()

    def append(self, rows: Iterable[Row]) -> None:
        """Write a chunk; when this returns, it is on the disk."""
        lines = [checked_line(row) for row in rows]
        with self.path.open("ab") as file:
            file.write(b"".join(lines))
            file.flush()
            os.fsync(file.fileno())
        self.done += len(lines)

    def rows(self) -> Iterator[Row]:
        """All answers, in the order of the photos."""
        with self.path.open("rb") as file:
            next(file)
            for line in file:
                yield value_of(line)


def files_beside(journal: Path) -> dict[str, Path]:
    """The files of a run until it is done: its journal, the log of its sorting, its lock."""
    log, lock = (journal.with_name(name) for name in (f"{journal.name}.moves", f".{journal.name}.lock"))
    return {"journal": journal, "log": log, "lock": lock}


def begin(path: Path, heading: Heading) -> Journal:
    """A new journal, in the place of one that is there."""
    journal = Journal(path, heading, 0)
    journal.log.unlink(missing_ok=True)  # of a run whose journal somebody removed
    with replacing(path) as temporary:
        temporary.write_bytes(checked_line(asdict(heading)))
    return journal


def reopen(path: Path, chunk: int) -> Journal:
    """The journal of a stopped run, up to its last whole chunk."""
    try:
        with open_file(inside(path.parent, path.name)) as file:
            heading = parse(Heading, value_of(file.readline()))
            ends = [file.tell()]
            for line in file:
                if not _whole(line):
                    break
                ends.append(ends[-1] + len(line))
    except (AttributeError, OSError, TypeError, ValueError):
        raise UserError(f"{path} is not what a stopped run left; remove it, and start anew") from None
    done = len(ends) - 1
    if done < heading.photos:
        done -= done % chunk
    os.truncate(path, ends[done])
    return Journal(path, heading, done)


def check_same(found: Heading, wanted: Heading, path: Path) -> None:
    """Refuse to go on with a run that was begun otherwise."""
    for key, words in _WORDS.items():
        if getattr(found, key) != getattr(wanted, key):
            raise UserError(
                f"{path} was begun with {words}; give the command that began it, or remove the file to start "
                "anew"
            )


def checked_line(value: Any) -> bytes:
    """A value as a line of JSON, with its checksum."""
    return with_checksum(json.dumps(value).encode())


def with_checksum(text: bytes) -> bytes:
    return b"%b\t%08x\n" % (text, zlib.crc32(text))


def value_of(line: bytes) -> Any:
    """The value of such a line; `ValueError` unless it is as it was written."""
    text = line.rpartition(b"\t")[0]
    if with_checksum(text) != line:
        raise ValueError("a line is damaged, or was cut off")
    return parse_json(text.decode())


def _whole(line: bytes) -> bool:
    """Whether a line is all of an answer; what was damaged since is answered anew, with all that follows."""
    try:
        row = value_of(line)
        json.dumps(row, ensure_ascii=False).encode(errors="surrogateescape")  # a file takes its names
    except ValueError:
        return False
    answer = isinstance(row, dict) and all(
        key in row and isinstance(row[key], kinds) for key, kinds in _ANSWER.items()
    )
    return answer and all(map(_pair, row["top"]))


def _pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[1], _NUMBER)
