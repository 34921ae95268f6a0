"""The one engine for answers of Python, the command line and the server: rows of features in, answers out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isnan, nan
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from fewset.classify.labels import NONE_OF_THESE, plain_label, rejected_label
from fewset.classify.model import Learned
from fewset.classify.photos.rows import BATCH, PhotoRow
from fewset.core.errors import UserError

CHUNK = 2 * BATCH
"""Photos that are answered at once, a multiple of those that are embedded at once."""
Row = Mapping[str, Any]
"""An answer as it goes into files."""
_DIGITS = 4  # of probabilities and closeness


class Answer(NamedTuple):
    """The classification of one photo."""

    name: str
    label: Any
    """The class, or what stands for none of these; None for a photo that cannot be read."""
    probability: float
    """That of the class; NaN for a photo that is none of these."""
    top: tuple[tuple[Any, float], ...]
    """The likeliest classes with their probabilities, given that the photo is of one of them."""
    closeness: float
    """To the labelled photos: `fewset.classify.trust.rejection.Closeness`."""
    nearest: int
    """The index of the nearest labelled photo: the reason."""
    nearest_name: str
    problem: str = ""
    """Why the photo cannot be read."""


def unreadable(name: str, problem: str) -> Answer:
    """The answer for a photo that cannot be read."""
    return Answer(name, None, nan, (), nan, -1, "", problem)


@dataclass(frozen=True)
class Predictor:
    """A classifier with the options of its answers."""

    learned: Learned
    top: int = 3
    """How many of the likeliest classes an answer lists."""
    share: float | None = None
    """The allowed false-rejection rate of "none of these"; None: no photo is rejected."""
    together: bool = False
    """Whether the photos help to classify each other."""

    def answers(self, rows: Iterable[PhotoRow]) -> Iterator[Answer]:
        """One answer a row, in order; a photo that cannot be read gets the reason as its answer."""
        waiting = iter(rows)
        while chunk := list(islice(waiting, None if self.together else CHUNK)):
            readable = [row for row in chunk if not row.problem]
            found = iter(self._answers(readable) if readable else ())
            for row in chunk:
                yield unreadable(row.name, row.problem) if row.problem else next(found)

    def _answers(self, rows: Sequence[PhotoRow]) -> Iterator[Answer]:
        learned, classes = self.learned, self.learned.support.classes
        features = np.stack([row.features for row in rows])
        best = top_classes(classes, learned.probabilities(features, self.together), self.top)
        limit = -np.inf if self.share is None else learned.threshold(self.share)
        rejected = None if self.share is None else rejected_label(classes)
        nearest, close = learned.nearest(features), learned.closeness.of(features)
        for row, likeliest, photo, closeness in zip(rows, best, nearest, close.tolist(), strict=True):
            label, probability = (rejected, nan) if closeness < limit else likeliest[0]
            reason = learned.support.names[photo]
            yield Answer(row.name, label, probability, likeliest, closeness, int(photo), reason)


def top_classes(
    classes: np.ndarray, probabilities: Float[np.ndarray, "m N"], count: int
) -> list[tuple[tuple[Any, float], ...]]:
    """The likeliest classes of each photo, with their probabilities, the likeliest first."""
    if count < 1:
        raise UserError(f"got {count} for the number of likeliest classes, expected 1 or more")
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :count]
    return [
        tuple((plain_label(classes[label]), float(row[label])) for label in best)
        for row, best in zip(probabilities, order, strict=True)
    ]


def answer_row(answer: Answer) -> Row:
    """The entries of an answer in files: plain values, None for a missing one."""
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


def _rounded(number: float) -> Any:
    return None if isnan(number) else round(number, _DIGITS)
