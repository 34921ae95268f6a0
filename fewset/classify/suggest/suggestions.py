"""From unlabelled photos to suggestions: which to label next, and why."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32

from fewset.classify.labels import none_label
from fewset.classify.model import Learned
from fewset.classify.photos.rows import PhotoRow
from fewset.classify.predict.answers import Answer, Predictor
from fewset.classify.suggest.choice import MOST, next_to_label
from fewset.classify.trust.rejection import SHARE
from fewset.core.errors import UserError


@dataclass(frozen=True)
class Suggestion:
    """A photo that is worth labelling."""

    index: int
    """Its place among the given photos."""
    name: str
    reason: str
    new_class: bool
    """Whether it is unlike all labelled photos ("none of these"), so that it may be of a new class."""
    answer: Answer
    """What the classifier says now."""


class Unlabelled(NamedTuple):
    """The photos that could be read, with a row of features each, and the problems of the others."""

    features: Float32[np.ndarray, "n D"]
    names: list[str]
    indices: list[int]
    """The place of each among the given photos."""
    problems: list[str]


def read_unlabelled(rows: Iterable[PhotoRow]) -> Unlabelled:
    """The rows of photos as they are embedded; their features and names are all that is kept in memory."""
    features, names, indices, problems = [], [], [], []
    for index, row in enumerate(rows):
        if row.problem:
            problems.append(f"{row.name}: {row.problem}")
        else:
            features.append(row.features)
            names.append(row.name)
            indices.append(index)
    if not names:
        more = f" ({problems[0]})" if problems else ""
        raise UserError(f"none of the {len(problems):,} photos can be read{more}")
    return Unlabelled(np.stack(features), names, indices, problems)


def suggestions(learned: Learned, photos: Unlabelled, count: int) -> list[Suggestion]:
    """The photos to label next, the most useful first."""
    if not 1 <= count <= MOST:
        raise UserError(f"got {count} for the number of photos to label, expected 1 to {MOST:,}")
    classes = learned.support.classes
    share = None if none_label(classes) in classes else SHARE
    chosen = next_to_label(learned, photos.features, count).tolist()
    rows = (PhotoRow(photos.names[each], photos.features[each]) for each in chosen)
    answers = Predictor(learned, top=2, share=share).answers(rows)
    return list(_explained(zip([photos.indices[each] for each in chosen], answers, strict=True)))


def _explained(found: Iterable[tuple[int, Answer]]) -> Iterator[Suggestion]:
    for index, answer in found:
        new = answer.label != answer.top[0][0]
        likeliest = " or ".join(f"{label} {100 * share:.0f} %" for label, share in answer.top)
        reason = "unlike all labelled photos: a new class?" if new else likeliest
        yield Suggestion(index, answer.name, reason, new, answer)
