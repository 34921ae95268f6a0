"""The files that the page offers: each button is one function in a table."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from fewset.classify.embedding import chosen_encoder
from fewset.classify.export.writing import ClassifierExport, find_runtime
from fewset.classify.predict.answers import answer_row
from fewset.classify.predict.files import write_csv
from fewset.classify.serve.workbench import TOP, Moment
from fewset.core.errors import UserError
from fewset.core.extras import imports


class Download(NamedTuple):
    """The file of a button, or a folder that is sent as a zip file."""

    title: str
    name: str
    write: Callable[[Moment, Path], object]
    available: Callable[[], bool] = lambda: True

    def packed(self, moment: Moment) -> tuple[str, bytes]:
        """The name of the file and its content."""
        with TemporaryDirectory(prefix="fewset-") as folder:
            path = Path(folder, self.name)
            self.write(moment, path)
            if path.is_dir():
                path = Path(shutil.make_archive(str(path), "zip", path))
            return path.name, path.read_bytes()


def _export(moment: Moment) -> ClassifierExport:
    learned = moment.ready()
    encoder = learned.encoder.id if learned.encoder else "auto"
    return ClassifierExport(learned, chosen_encoder(encoder, "cpu"), moment.album.share)


def _write_predictions(moment: Moment, path: Path) -> None:
    answers = moment.answers([photo.row for photo in moment.tried])
    write_csv(path, map(answer_row, answers), TOP)


def _can_write_page() -> bool:
    with suppress(UserError):
        return imports("onnx", "onnxruntime") and bool(find_runtime())
    return False


DOWNLOADS = {
    "classifier": Download(
        "Download classifier",
        "my.fewset",
        Moment.save,
    ),
    "predictions": Download("Download predictions (CSV)", "predictions.csv", _write_predictions),
    "onnx": Download(
        "Download ONNX",
        "my-onnx",
        lambda moment, path: _export(moment).write_folder(path, joined=True),
        lambda: imports("onnx", "onnxruntime"),
    ),
    "web": Download(
        "Download web page",
        "my-page",
        lambda moment, path: _export(moment).write_page(path, find_runtime()),
        _can_write_page,
    ),
}
