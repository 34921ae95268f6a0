"""What the classifier says of the photos that were tried, as the table that `fewset predict --csv` writes."""

from pathlib import Path

from fewset.classify.answer_files import answer_row, write_csv
from fewset.classify.answers import Answer
from fewset.classify.web.downloads import register_download
from fewset.classify.web.workbench import TOP, Moment

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@register_download("predictions")
def predictions_table(moment: Moment, folder: Path) -> Path:
    """Download predictions (CSV)."""
    answers = moment.answers([photo.row for photo in moment.tried])
    path = folder / "predictions.csv"
    write_csv(path, (answer_row(_harmless(answer)) for answer in answers), TOP)
    return path


def _harmless(answer: Answer) -> Answer:
    """With names that a spreadsheet does not take for formulas: they come from anywhere."""
    return answer._replace(
        name=_cell(answer.name),
        label=_cell(answer.label),
        top=tuple((_cell(label), probability) for label, probability in answer.top),
        nearest_name=_cell(answer.nearest_name),
    )


def _cell(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text
