"""Files of answers: CSV, JSON, and the answers so far of a run, from which it can go on after a stop."""

import csv
import json
import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from types import NoneType
from typing import Any, TextIO

import numpy as np

from fewset.classify.photos.sources import Listing
from fewset.classify.predict.answers import Row
from fewset.io.files import harmless, replacing
from fewset.io.paths import inside
from fewset.io.reading import open_file, parse_json

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


def write_csv(path: Path, rows: Iterable[Row], top: int, more: Iterable[str] = ()) -> None:
    """A line a photo, with the likeliest classes in columns; `more` names further entries of the rows.

    Names come from anywhere. One that a spreadsheet would take for a formula has an apostrophe before it.
    """
    names = ["file", "class", "probability", "closeness", "nearest", "problem", *more]
    likeliest = [f"{what}_{number}" for number in range(1, top + 1) for what in ("class", "probability")]
    # A name that is not text (Linux has any bytes) goes into the file as it is.
    with (
        replacing(path) as temporary,
        temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        writer = csv.writer(_UnixLines(file))
        writer.writerow([*names, *likeliest])
        for row in rows:
            cells = [cell for pair in row["top"] for cell in pair]
            cells += [None] * (len(likeliest) - len(cells))
            writer.writerow([harmless(cell) for cell in (*(row[name] for name in names), *cells)])


class _UnixLines:
    """Lines for a file as Unix ends them; by its own ends the writer knows to quote a carriage return."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def write(self, line: str) -> None:
        self.file.write(line.removesuffix("\r\n") + "\n")


def write_lines(path: Path, rows: Iterable[Row]) -> None:
    """A JSON array with a line for each photo, so that a program may also read it line by line."""
    with (
        replacing(path) as temporary,
        temporary.open("w", encoding="utf-8", errors="backslashreplace") as file,
    ):
        before = "[\n"
        for row in rows:
            file.write(before + json.dumps(row, ensure_ascii=False))
            before = ",\n"
        file.write("\n]\n")


class PartialAnswers:
    """The answers for a listing that are in a file; `key` stands for the classifier and the options."""

    def __init__(self, path: Path, key: str, listing: Listing) -> None:
        self.path, self.key, self.listing = path, key, listing
        self._offsets = np.full(len(listing), -1, dtype=np.int64)  # of the lines in the file
        self._states = np.zeros((0, 2), dtype=np.int64)

    def reopen(self) -> None:
        """Look at all photos, and find those that have an answer already."""
        count = len(self.listing)
        self._states = np.fromiter(
            (self.listing.state(number) for number in range(count)), dtype=(np.int64, 2), count=count
        )
        if not self.path.exists():
            return
        numbers = {name: number for number, name in enumerate(self.listing.names)}
        end, whole = 0, True
        with open_file(inside(self.path.parent, self.path.name)) as file:
            for line in file:
                found = _parsed(line)
                number = numbers.get(found["answer"]["file"]) if found else None
                if found and number is not None and found["made"] == [self.key, *self.state(number)]:
                    self._offsets[number] = end
                end, whole = end + len(line), line.endswith(b"\n")
        if not whole:  # the last line was cut off by a stop
            with self.path.open("ab") as file:
                file.write(b"\n")

    def state(self, number: int) -> tuple[int, int]:
        """Size and modification time of a photo when the run began."""
        size, modified = self._states[number].tolist()
        return size, modified

    def missing(self, chunk: int) -> list[int]:
        """The first photos of the chunks in which answers are missing."""
        starts = range(0, len(self.listing), chunk)
        return [start for start in starts if (self._offsets[start : start + chunk] < 0).any()]

    def append(self, start: int, rows: Iterable[Row]) -> None:
        """Write the answers of the photos from number `start` on; when this returns, they are on the disk."""
        with self.path.open("ab") as file:
            for number, row in enumerate(rows, start):
                self._offsets[number] = file.tell()
                line = {"made": [self.key, *self.state(number)], "answer": row}
                file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def rows(self) -> Iterator[Row]:
        """All answers, in the order of the photos."""
        with self.path.open("rb") as file:
            for offset in self._offsets.tolist():
                file.seek(offset)
                yield json.loads(file.readline())["answer"]


def key_of(*parts: object) -> str:
    """A short text that is another one for other parts."""
    return sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()[:16]


def is_answer(row: Any) -> bool:
    """Whether a value from a file is an answer."""
    return (
        isinstance(row, dict)
        and row.keys() == _ANSWER.keys()
        and all(isinstance(row[key], kinds) for key, kinds in _ANSWER.items())
        and all(
            isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], _NUMBER) for pair in row["top"]
        )
    )


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = parse_json(line.decode())
        json.dumps(found, ensure_ascii=False).encode(errors="surrogateescape")  # can be written again
    except ValueError:
        return None
    whole = isinstance(found, dict) and found.keys() == {"made", "answer"} and is_answer(found["answer"])
    return found if whole else None
