"""Files of answers: CSV, JSON, and the answers so far of a run, with which `--resume` continues."""

import csv
import json
import os
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from io import StringIO
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import Any

from fewset.classify.photos.sources import Listing, State
from fewset.classify.predict.answers import Row
from fewset.core.errors import UserError
from fewset.io.files import harmless, replacing
from fewset.io.paths import inside
from fewset.io.reading import open_file, parse_json

_OPTIONAL: tuple[type, ...] = (str, int, float, type(None))
_ENTRIES = {"class": _OPTIONAL, "probability": _OPTIONAL, "closeness": _OPTIONAL, "nearest": _OPTIONAL}
_ENTRIES |= {"file": (str,), "problem": (str, type(None)), "top": (list,)}


def write_csv(path: Path, rows: Iterable[Row], top: int, more: Iterable[str] = ()) -> None:
    """A line a photo, with the likeliest classes in columns; `more` names further entries of the rows.

    Where a line is not ASCII, the file begins with the mark by which Excel recognises UTF-8.
    """
    with replacing(path) as temporary, TemporaryFile(dir=path.parent) as body:
        ascii_only = True
        for line in csv_lines(rows, top, more):
            ascii_only &= line.isascii()
            # A name that is not text (Linux has any bytes) goes into the file as it is.
            body.write(line.encode(errors="surrogateescape"))
        body.seek(0)
        with temporary.open("wb") as file:
            file.write(b"" if ascii_only else BOM_UTF8)
            copyfileobj(body, file)


def csv_lines(rows: Iterable[Row], top: int, more: Iterable[str] = ()) -> Iterator[str]:
    """The lines of the CSV file, as the rows come.

    A name that a spreadsheet could read as a formula gets an apostrophe before it.
    """
    names = ["file", "class", "probability", "closeness", "nearest", "problem", *more]
    likeliest = [f"{what}_{number}" for number in range(1, top + 1) for what in ("class", "probability")]
    yield _csv_line([*names, *likeliest])
    for row in rows:
        cells = [cell for pair in row["top"] for cell in pair]
        cells += [None] * (len(likeliest) - len(cells))
        yield _csv_line([harmless(cell) for cell in (*(row[name] for name in names), *cells)])


def _csv_line(cells: Iterable[Any]) -> str:
    """A line with a Unix end; the writer's own is "\\r\\n", so that it quotes a carriage return."""
    line = StringIO(newline="")
    csv.writer(line).writerow(cells)
    return line.getvalue().removesuffix("\r\n") + "\n"


def write_json(path: Path, rows: Iterable[Row]) -> None:
    """A JSON array with a line for each photo, so that a program may also read it line by line."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.writelines(line.encode(errors="backslashreplace") for line in json_lines(rows))


def json_lines(rows: Iterable[Row]) -> Iterator[str]:
    """The lines of the JSON array, as the rows come."""
    before = "[\n"
    for row in rows:
        yield before + json.dumps(row, ensure_ascii=False)
        before = ",\n"
    yield "\n]\n"


class PartialAnswers:
    """The answers so far, in a file: the run, then a line a photo, then `null` if all photos are answered.

    `run` stands for the classifier, the options and the photos. A line holds the size and the modification
    time of a photo, and the row of its answer.
    """

    def __init__(self, path: Path, run: str) -> None:
        self.path, self._head = inside(path.parent, path.name), json.dumps(run).encode() + b"\n"

    def complete(self) -> bool:
        """Whether all photos are answered; an error for a file of another run."""
        if not self.path.exists():
            return False
        with open_file(self.path) as file:
            if file.readline() != self._head:
                raise UserError(
                    f"{self.path} is from another classifier, other photos or other options; give the "
                    "command that began it, with --resume, or remove it to start over"
                )
        return any(line is None for _, line in self._lines())

    def reopen(self, listing: Listing, chunk: int) -> int:
        """Keep the answers of whole chunks up to the first photo that has changed; their number."""
        if not self.path.exists():
            with replacing(self.path) as temporary:
                temporary.write_bytes(self._head)
        offsets, same = [], 0
        for start, line in self._lines():
            offsets.append(start)
            if line is None or same == len(listing):
                break
            size, modified, row = line
            if (row["file"], (size, modified)) != (listing.names[same], listing.state(same)):
                break
            same += 1
        kept = same if same == len(listing) else same // chunk * chunk
        if kept < len(offsets):
            os.truncate(self.path, offsets[kept])
        return kept

    def append(self, answers: Iterable[tuple[Iterable[int], Row]]) -> None:
        """Write the answers of the next photos, with their states, to the disk."""
        self._write(json.dumps([*state, row]) for state, row in answers)

    def finish(self) -> None:
        """Note that all photos are answered."""
        self._write(["null"])

    def answers(self) -> Iterator[tuple[State, Row]]:
        """All answers in the file, with the size and modification time of their photos."""
        return (((line[0], line[1]), line[2]) for _, line in self._lines() if line is not None)

    def _write(self, lines: Iterable[str]) -> None:
        with self.path.open("ab") as file:
            file.writelines(line.encode() + b"\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())

    def _lines(self) -> Iterator[tuple[int, Any]]:
        """The start of each line and its content; the last line is removed if a stop has cut it off."""
        with open_file(self.path) as file:
            start = len(file.readline())
            for line in file:
                if not line.endswith(b"\n"):
                    os.truncate(self.path, start)
                    return
                found = self._parsed(line)
                yield start, found
                start += len(line)

    def _parsed(self, line: bytes) -> Any:
        try:
            found = parse_json(line.decode())
            json.dumps(found, ensure_ascii=False).encode(errors="surrogateescape")  # can be written again
            if found is not None and not _is_answer(found):
                raise ValueError
        except ValueError:
            raise UserError(f"{self.path} is damaged; remove it to start over") from None
        return found


def _is_answer(line: Any) -> bool:
    if not (isinstance(line, list) and [type(each) for each in line] == [int, int, dict]):
        return False
    row = line[2]
    return (
        row.keys() == _ENTRIES.keys()
        and all(isinstance(row[name], kinds) for name, kinds in _ENTRIES.items())
        and all(isinstance(pair, list) and len(pair) == 2 for pair in row["top"])
    )
