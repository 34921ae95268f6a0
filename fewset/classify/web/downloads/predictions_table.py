"""What the classifier says of the photos that were tried, as the table that `fewset predict --csv` writes."""

from pathlib import Path

from fewset.classify.answer_files import answer_row, write_csv
from fewset.classify.web.downloads import register_download
from fewset.classify.web.workbench import TOP, Moment


@register_download("predictions")
def predictions_table(moment: Moment, folder: Path) -> Path:
    """Download predictions (CSV)."""
    answers = moment.answers([photo.row for photo in moment.tried])
    path = folder / "predictions.csv"
    write_csv(path, map(answer_row, answers), TOP)
    return path
