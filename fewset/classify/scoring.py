"""A classifier on labelled photos that it has not seen: accuracy, confusions, calibration, rejection."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from sklearn.metrics import roc_auc_score

from fewset.classify.predict.answers import Answer
from fewset.classify.trust.calibration import Interval, wilson
from fewset.core.errors import UserError

BINS = 15


@dataclass(frozen=True)
class ClassScore:
    """The photos of one class."""

    label: str
    photos: int
    right: int
    rejected: int


@dataclass(frozen=True)
class Mistake:
    """A photo of a class that was taken for another."""

    photo: str
    label: str
    taken_for: str
    probability: float


@dataclass(frozen=True)
class LabelledScore:
    """How right the answers for labelled photos are. Photos of other things, with other labels, are apart."""

    photos: int
    """Photos of the classes that could be read."""
    right: int
    """Those whose likeliest class is their label, rejected or not."""
    independent: int
    """Groups of photos; a photo without a group is one."""
    classes: tuple[ClassScore, ...]
    mistakes: tuple[Mistake, ...]
    """The surest first."""
    probability: float
    """Of the likeliest class, on average."""
    calibration_error: float
    """The expected calibration error of that probability."""
    rejected: int
    """Photos of the classes that were answered with "none of these"."""
    right_of_accepted: int
    others: int
    """Photos of other things."""
    others_rejected: int
    other_labels: tuple[str, ...]
    auroc: float | None
    """The share of pairs of a photo of the classes and one of another thing of which the first is closer to
    the labelled photos; None without other things."""

    @property
    def accuracy(self) -> float:
        return self.right / self.photos

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the accuracy on photos like these."""
        return wilson(self.accuracy * self.independent, self.independent)

    @property
    def confusions(self) -> list[tuple[str, str, int]]:
        """The label, the class that was answered, and how often, the most frequent first."""
        counts = Counter((each.label, each.taken_for) for each in self.mistakes)
        return [(*pair, count) for pair, count in counts.most_common()]

    def plain(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        from fewset.core.parsing import plain

        found = {"accuracy": self.accuracy, "interval": list(self.interval), **plain(self)}
        return found | {"confusions": [list(each) for each in self.confusions]}


def score_answers(
    answers: Sequence[Answer], labels: Sequence[str], classes: Sequence[Any], groups: Sequence[str]
) -> LabelledScore:
    """The score of answers; `labels` are texts, `groups` as photos have them."""
    names = [str(label) for label in classes]
    own = [number for number, label in enumerate(labels) if label in names]
    if not own:
        given, known = (", ".join(sorted(set(each))) for each in (labels, names))
        raise UserError(
            f"the photos are of {given}, of which the classifier knows none; its classes are {known}; "
            "rename the folders, or the classes with `fewset rename`"
        )
    others = [number for number, label in enumerate(labels) if label not in names]
    likeliest = [str(answer.top[0][0]) for answer in answers]
    away = np.array([answer.label != answer.top[0][0] for answer in answers])
    right = np.array([name == label for name, label in zip(likeliest, labels, strict=True)])
    sure = np.array([answer.top[0][1] for answer in answers])
    close = np.array([answer.closeness for answer in answers])
    of = {name: [number for number in own if labels[number] == name] for name in names}
    mistakes = sorted((number for number in own if not right[number]), key=lambda number: -sure[number])
    named = {groups[number] for number in own if groups[number]}
    return LabelledScore(
        photos=len(own),
        right=int(right[own].sum()),
        independent=len(named) + sum(not groups[number] for number in own),
        classes=tuple(
            ClassScore(name, len(rows), int(right[rows].sum()), int(away[rows].sum()))
            for name, rows in of.items()
            if rows
        ),
        mistakes=tuple(
            Mistake(answers[number].name, labels[number], likeliest[number], float(sure[number]))
            for number in mistakes
        ),
        probability=float(sure[own].mean()),
        calibration_error=expected_calibration_error(sure[own], right[own]),
        rejected=int(away[own].sum()),
        right_of_accepted=int((right & ~away)[own].sum()),
        others=len(others),
        others_rejected=int(away[others].sum()),
        other_labels=tuple(sorted({labels[number] for number in others})),
        auroc=float(roc_auc_score([*[True] * len(own), *[False] * len(others)], close[own + others]))
        if others
        else None,
    )


def expected_calibration_error(
    sure: Float[np.ndarray, " m"], right: Bool[np.ndarray, " m"], bins: int = BINS
) -> float:
    """How far the probabilities of answers are from the shares that are right, on average over the answers.

    Answers are put into bins of equal width by their probabilities; within a bin the means are compared.
    """
    places = np.minimum((sure * bins).astype(np.int64), bins - 1)
    gaps = np.bincount(places, weights=sure - right, minlength=bins)
    return float(np.abs(gaps).sum() / len(sure))
