"""What the classifier says of the photos that were tried, as the table that `fewset predict --csv` writes."""

from pathlib import Path

from fewset.classify.predict.answers import answer_row
from fewset.classify.predict.files import write_csv
from fewset.classify.serve.downloads import register_download
from fewset.classify.serve.workbench import TOP, Moment


@register_download("predictions")
def predictions_table(moment: Moment, folder: Path) -> Path:
    """Download predictions (CSV)."""
    answers = moment.answers([photo.row for photo in moment.tried])
    path = folder / "predictions.csv"
    write_csv(path, map(answer_row, answers), TOP)
    return path
