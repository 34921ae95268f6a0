"""What the classifier says of the photos that were tried, as a table."""

import csv
from pathlib import Path
from typing import Any

from fewset.classify.web.downloads import register_download
from fewset.classify.web.workbench import TOP, Moment
from fewset.runtime.files import replacing

_DIGITS = 4


@register_download("predictions")
def predictions_table(moment: Moment, folder: Path) -> Path:
    """Download predictions (CSV)."""
    answers = moment.answers([photo.row for photo in moment.tried])
    likeliest = [f"{what}_{number}" for number in range(1, TOP + 1) for what in ("class", "probability")]
    path = folder / "predictions.csv"
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["file", "class", "probability", "closeness", "nearest", *likeliest])
        for answer in answers:
            cells: list[Any] = [cell for name, share in answer.top for cell in (_cell(name), _rounded(share))]
            cells += [None] * (len(likeliest) - len(cells))
            row = [_cell(answer.name), _cell(answer.label), _rounded(answer.probability)]
            writer.writerow([*row, _rounded(answer.closeness), _cell(answer.nearest_name), *cells])
    return path


def _cell(text: str) -> str:
    """A name that a spreadsheet does not take for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _rounded(number: float) -> float:
    return round(number, _DIGITS)
