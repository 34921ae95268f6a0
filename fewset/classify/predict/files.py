"""Files of answers: CSV, JSON, and the answers so far of a run, with which `--resume` continues."""

import csv
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from fewset.classify.photos.sources import Listing, State
from fewset.classify.predict.answers import Row
from fewset.core.errors import UserError
from fewset.io.files import replacing
from fewset.io.inside import inside
from fewset.io.reading import open_file, parse_json
from fewset.io.spreadsheets import harmless

_OPTIONAL: tuple[type, ...] = (str, int, float, type(None))
_ENTRIES = {"class": _OPTIONAL, "probability": _OPTIONAL, "closeness": _OPTIONAL, "nearest": _OPTIONAL}
_ENTRIES |= {"file": (str,), "problem": (str, type(None)), "top": (list,)}


def write_csv(path: Path, rows: Iterable[Row], top: int, more: Iterable[str] = ()) -> None:
    """A line a photo, with the likeliest classes in columns; `more` names further entries of the rows.

    A name that a spreadsheet could read as a formula gets an apostrophe before it.
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
    """A file with Unix line ends; the writer itself uses "\\r\\n", so that it quotes a carriage return."""

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
    """The answers so far, in a file: the run and whether all photos are answered, then a line a photo.

    `run` stands for the classifier, the options and the photos. A line holds the size and the modification
    time of a photo, and the row of its answer.
    """

    def __init__(self, path: Path, run: str) -> None:
        self.path, self.run = inside(path.parent, path.name), run

    def complete(self) -> bool:
        """Whether all photos are answered; an error for a file of another run."""
        if not self.path.exists():
            return False
        with open_file(self.path) as file:
            heading = self._parsed(file.readline())
        if not isinstance(heading, list) or heading[:1] != [self.run]:
            raise UserError(
                f"{self.path} is from another classifier, other photos or other options; give the command "
                "that began it, with --resume, or remove it to start over"
            )
        return heading[1:] == [True]

    def reopen(self, listing: Listing) -> None:
        """Start the file, or find the answers in it that still hold: those of unchanged photos."""
        count = len(listing)
        self._states = np.fromiter(map(listing.state, range(count)), dtype=(np.int64, 2), count=count)
        self._offsets = np.full(count, -1, dtype=np.int64)
        if not self.path.exists():
            self._write(False, ())
        numbers = {name: number for number, name in enumerate(listing.names)}
        for start, state, row in self._lines():
            number = numbers.get(row["file"])
            if number is not None and state == tuple(self._states[number]):
                self._offsets[number] = start

    def missing(self, chunk: int) -> list[int]:
        """The first photos of the chunks in which answers are missing."""
        starts = range(0, len(self._offsets), chunk)
        return [start for start in starts if (self._offsets[start : start + chunk] < 0).any()]

    def append(self, start: int, rows: Iterable[Row]) -> None:
        """Write the answers of the photos from index `start` on, to the disk."""
        with self.path.open("ab") as file:
            for number, row in enumerate(rows, start):
                self._offsets[number] = file.tell()
                file.write(json.dumps([*self._states[number].tolist(), row]).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def finish(self) -> None:
        """Write all answers in the order of the photos, and that they are complete."""
        with self.path.open("rb") as file:

            def lines() -> Iterator[bytes]:
                for offset in self._offsets.tolist():
                    file.seek(offset)
                    yield file.readline()

            self._write(True, lines())

    def answers(self) -> Iterator[tuple[State, Row]]:
        """All answers in the file, with the size and modification time of their photos."""
        for _, state, row in self._lines():
            yield state, row

    def _write(self, complete: bool, lines: Iterable[bytes]) -> None:
        with replacing(self.path) as temporary, temporary.open("wb") as file:
            file.write(json.dumps([self.run, complete]).encode() + b"\n")
            file.writelines(lines)

    def _lines(self) -> Iterator[tuple[int, State, Row]]:
        """The start of each line, and its content; the last line is removed if a stop has cut it off."""
        with open_file(self.path) as file:
            start = len(file.readline())
            for line in file:
                if not line.endswith(b"\n"):
                    os.truncate(self.path, start)
                    return
                found = self._parsed(line)
                if not _is_answer(found):
                    raise self._damaged()
                size, modified, row = found
                yield start, (size, modified), row
                start += len(line)

    def _parsed(self, line: bytes) -> Any:
        try:
            found = parse_json(line.decode())
            json.dumps(found, ensure_ascii=False).encode(errors="surrogateescape")  # can be written again
        except ValueError:
            raise self._damaged() from None
        return found

    def _damaged(self) -> UserError:
        return UserError(f"{self.path} is damaged; remove it to start over")


def _is_answer(line: Any) -> bool:
    if not (isinstance(line, list) and [type(each) for each in line] == [int, int, dict]):
        return False
    row = line[2]
    return (
        row.keys() == _ENTRIES.keys()
        and all(isinstance(row[name], kinds) for name, kinds in _ENTRIES.items())
        and all(isinstance(pair, list) and len(pair) == 2 for pair in row["top"])
    )
