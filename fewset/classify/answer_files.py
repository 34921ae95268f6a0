"""Answers in files for people and programs: CSV, and JSON with a line for each photo."""

import csv
import json
from collections.abc import Iterable
from math import isnan
from pathlib import Path
from typing import Any, TextIO

from fewset.classify.answers import NONE_OF_THESE, Answer, Row
from fewset.io.files import replacing

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_DIGITS = 4  # of probabilities and cosines: what rounding errors do to the next ones is no news


def answer_row(answer: Answer) -> Row:
    """What goes into files of an answer: plain values, None for what there is none of."""
    label = answer.label
    if answer.top and label != answer.top[0][0]:
        label = NONE_OF_THESE  # which is -1 where classes are numbers
    return {
        "file": answer.name,
        "class": label,
        "probability": _rounded(answer.probability),
        "top": [[name, _rounded(probability)] for name, probability in answer.top],
        "closeness": _rounded(answer.closeness),
        "nearest": answer.nearest_name or None,
        "problem": " ".join(answer.problem.split()) or None,
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


def harmless(cell: Any) -> Any:
    """What is in a cell, as a spreadsheet shows it and does not compute it."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def _rounded(number: float) -> Any:
    return None if isnan(number) else round(number, _DIGITS)
