"""Rows of features become answers: the class, the likeliest ones, and the labelled photo that is nearest."""

from collections.abc import Iterator, Sequence

import numpy as np

from fewset.classify.answers import Answer, rejected_label, top_classes, unreadable
from fewset.classify.learned import Learned
from fewset.classify.photo_rows import PhotoRow


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
