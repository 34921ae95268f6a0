"""Rows of features become answers: the class, the likeliest classes, and the nearest labelled photo."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from fewset.classify.labels import NONE_OF_THESE, plain_label, rejected_label
from fewset.classify.model import Learned
from fewset.classify.photos.rows import PhotoRow
from fewset.core.errors import UserError

Row = Mapping[str, Any]
"""What is said of one photo, as it goes into files."""
_DIGITS = 4  # of probabilities and cosines: what rounding errors do to the next ones is no news


class Answer(NamedTuple):
    """The classification of one photo."""

    name: str
    label: Any
    """The class, or what stands for none of these; None for a photo that cannot be read."""
    probability: float
    """That of the likeliest class."""
    top: tuple[tuple[Any, float], ...]
    """The likeliest classes with their probabilities."""
    closeness: float
    """The largest cosine to a labelled photo or to the prototype of a class."""
    nearest: int
    """The number of the labelled photo that is nearest: the reason."""
    nearest_name: str
    problem: str = ""
    """Why the photo cannot be read."""


def unreadable(name: str, problem: str) -> Answer:
    """The answer for a photo that cannot be read."""
    return Answer(name, None, float("nan"), (), float("nan"), -1, "", problem)


def answered(
    learned: Learned, rows: Sequence[PhotoRow], top: int, share: float | None, together: bool = False
) -> Iterator[Answer]:
    """An answer a row, in their order; a photo that could not be read gives its reason.

    `share` of the classes' own photos may be turned away as none of these; None: none are. `together`, the
    rows help to classify each other.
    """
    good = [row for row in rows if not row.problem]
    found = iter(_found(learned, good, top, share, together) if good else ())
    for row in rows:
        yield unreadable(row.name, row.problem) if row.problem else next(found)


def _found(
    learned: Learned, rows: Sequence[PhotoRow], top: int, share: float | None, together: bool
) -> Iterator[Answer]:
    classes = learned.support.classes
    features = np.stack([row.features for row in rows])
    best = top_classes(classes, learned.probabilities(features, together), top)
    limit, rejected = (
        (-np.inf, None) if share is None else (learned.threshold(share), rejected_label(classes))
    )
    nearest, largest = learned.closeness.nearest(features), learned.closeness.largest(features)
    for row, likeliest, photo, cosine in zip(rows, best, nearest, largest, strict=True):
        label, probability = likeliest[0]
        if cosine < limit:
            label = rejected
        name = learned.support.names[photo]
        yield Answer(row.name, label, probability, likeliest, float(cosine), int(photo), name)


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


def _rounded(number: float) -> Any:
    return None if isnan(number) else round(number, _DIGITS)
