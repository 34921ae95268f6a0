"""Functions for engines (Ray Data, Spark, Dask, a process pool), which send them to their workers.

A worker loads the classifier or the encoder when it gets its first batch.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from fewset.classify.embedding import chosen_encoder, encoder_of
from fewset.classify.model import Learned
from fewset.classify.photos.rows import photo_rows
from fewset.classify.photos.sources import Photo, one_photo
from fewset.classify.predict import answers
from fewset.classify.predict.answers import Answer
from fewset.classify.trust.rejection import rejected_share
from fewset.core.errors import UserError
from fewset.encoders import Encoder

Columns = dict[str, Any]

_COLUMNS = ("image", "bytes", "path")
"""The columns that a batch may have its photos in; the first one that is there is taken."""


class _BatchFunction:
    """Without what it has loaded, which each worker loads by itself, when it is sent to one."""

    column: str | None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def _split(self, batch: Any) -> tuple[list[Photo], Columns]:
        """The photos of a batch, and its other columns."""
        if not hasattr(batch, "keys"):
            return [_photo(value, number) for number, value in enumerate(batch)], {}
        given: Columns = {name: batch[name] for name in batch.keys()}  # noqa: SIM118, a frame has these, too
        column = self.column or next((name for name in _COLUMNS if name in given), None)
        if column not in given:
            raise UserError(
                f"a batch has the columns {', '.join(map(str, given)) or 'none'}, expected "
                f"{self.column or ', '.join(_COLUMNS)}; name the column of the photos: column="
            )
        names = given.get("path")
        photos = []
        for number, value in enumerate(given[column]):
            photo = _photo(value, number)
            photos.append(photo if names is None else photo._replace(name=str(names[number])))
        return photos, {name: values for name, values in given.items() if name == "path" or name != column}


class Predictor(_BatchFunction):
    """A classifier as a function of a batch of photos, which can be sent to other processes.

    A batch is a sequence of photos (paths, Pillow images, bytes of files, arrays of pixels), or a dict of
    columns, one of which has the photos. The answer is a dict of columns: those of `fewset predict --csv`
    without `file`, and those of the batch without the photos (paths stay). A photo that cannot be read is a
    row with a `problem`, no `class`, and NaN as its probability.

    Args:
        classifier: A file that `fewset fit` or `FewShotClassifier.save` wrote; every worker reads it.
        top: How many of the likeliest classes an answer lists.
        reject: As in `FewShotClassifier`; "file": what the file says.
        encoder: Where the encoder is, if it is not found under the name in the file.
        device: Where to compute: "auto", "cpu", "cuda", "cuda:1", "mps".
        column: The column of the photos; by default "image", "bytes" or "path".

    Example:
        >>> from PIL import Image
        >>> import fewset
        >>> colours = [Image.new("RGB", (64, 64), colour) for colour in ("red", "orange", "blue", "navy")]
        >>> fewset.FewShotClassifier().fit(colours, ["warm"] * 2 + ["cold"] * 2).save("colours.fewset")
        >>> predict = fewset.Predictor("colours.fewset")
        >>> predict({"image": colours, "number": [1, 2, 3, 4]})["class"].tolist()
        ['warm', 'warm', 'cold', 'cold']
    """

    def __init__(
        self,
        classifier: str | PathLike[str],
        *,
        top: int = 3,
        reject: str | float | None = "file",
        encoder: str | None = None,
        device: str = "auto",
        column: str | None = None,
    ) -> None:
        if reject != "file":
            rejected_share(reject)  # checks it
        self.classifier = Path(fspath(classifier)).absolute()
        self.top, self.reject = top, reject
        self.encoder, self.device, self.column = encoder, device, column

    def __call__(self, batch: Any) -> Columns:
        photos, others = self._split(batch)
        predictor, encoder = self._loaded
        found = list(predictor.answers(photo_rows(photos, encoder)))
        columns = _answer_columns(found, predictor.learned, self.top)
        if taken := sorted(columns.keys() & others.keys()):
            raise UserError(f"a batch has a column {taken[0]!r}, as the answers have; rename it")
        return others | columns

    @cached_property
    def _loaded(self) -> tuple[answers.Predictor, Encoder]:
        from fewset.classify.saving import load_classifier

        learned, share = load_classifier(self.classifier)
        if self.reject != "file":
            share = rejected_share(self.reject)
        return answers.Predictor(learned, self.top, share), encoder_of(learned, self.encoder, self.device)


class Embedder(_BatchFunction):
    """An encoder as a function of a batch of photos, which can be sent to other processes.

    Batches are those of `Predictor`. The answer has the columns `features` (float32), of NaN for a photo that
    cannot be read, and `problem`, and those of the batch without the photos.

    Args:
        encoder: The name of an encoder, or the path of a run.
        device: Where to compute: "auto", "cpu", "cuda", "cuda:1", "mps".
        column: The column of the photos; by default "image", "bytes" or "path".

    Example:
        >>> from PIL import Image
        >>> import fewset
        >>> fewset.Embedder()([Image.new("RGB", (64, 64), "red"), "missing.jpg"])["features"].shape
        (2, 1280)
    """

    def __init__(self, encoder: str = "auto", *, device: str = "auto", column: str | None = None) -> None:
        self.encoder, self.device, self.column = encoder, device, column

    def __call__(self, batch: Any) -> Columns:
        photos, others = self._split(batch)
        encoder = chosen_encoder(self.encoder, self.device)
        rows = list(photo_rows(photos, encoder))
        features = np.array([row.features for row in rows], dtype=np.float32).reshape(len(rows), encoder.dim)
        return others | {"features": features, "problem": _texts(row.problem for row in rows)}


def _photo(value: Any, number: int) -> Photo:
    """A photo; what is none cannot be read, which is no reason to lose the batch."""
    try:
        return one_photo(value, number)
    except UserError as error:
        problem = error

        def read() -> bytes:
            raise problem

        return Photo(f"photo {number}", read)


def _answer_columns(found: Sequence[Answer], learned: Learned, top: int) -> Columns:
    columns: Columns = {
        "class": _objects(answer.label for answer in found),
        "probability": np.array([answer.probability for answer in found], dtype=np.float64),
        "closeness": np.array([answer.closeness for answer in found], dtype=np.float64),
        "nearest": _texts(answer.nearest_name for answer in found),
        "problem": _texts(answer.problem for answer in found),
    }
    for place in range(min(top, len(learned.support.classes))):
        likely = [answer.top[place] if answer.top else (None, np.nan) for answer in found]
        columns[f"class_{place + 1}"] = _objects(label for label, _ in likely)
        columns[f"probability_{place + 1}"] = np.array([share for _, share in likely], dtype=np.float64)
    return columns


def _texts(values: Iterable[str]) -> np.ndarray:
    return _objects(value or None for value in values)


def _objects(values: Iterable[Any]) -> np.ndarray:
    listed = list(values)
    column = np.empty(len(listed), dtype=object)
    column[:] = listed
    return column
