"""Files of answers: what a spreadsheet reads is shown by it, and not computed."""

import csv
from pathlib import Path

import pytest

from fewset.classify.predict.answers import Answer, answer_row
from fewset.classify.predict.files import write_csv


@pytest.mark.parametrize("name", ["=1+1", "+cmd", "-2", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("x")'])
def test_no_name_is_a_formula(name: str, tmp_path: Path) -> None:
    """Names of files, of classes and of the nearest photo, and columns that somebody else has named."""
    answer = Answer(f"{name}.jpg", name, 0.75, ((name, 0.75), ("cat", 0.25)), -0.5, 0, f"{name}-1.jpg", "")
    write_csv(tmp_path / "a.csv", [{**answer_row(answer), "note": name}], top=2, more=["note"])
    with (tmp_path / "a.csv").open(newline="") as lines:
        (row,) = csv.DictReader(lines)
    for column in ("file", "class", "nearest", "class_1", "note"):
        assert row[column].startswith(f"'{name}"), column
    assert (row["class_2"], row["probability"], row["closeness"]) == ("cat", "0.75", "-0.5")
