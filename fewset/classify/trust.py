"""How far a classifier can be trusted, as its own labelled photos tell: each is classified by the others."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.special import softmax

from fewset.classify.duplicates import numbered_copies
from fewset.classify.heads import ClassifierHead
from fewset.classify.intervals import Interval, left_out_interval
from fewset.classify.leave_one_out import left_out_logits
from fewset.classify.linear import prepared
from fewset.classify.rejection import closeness
from fewset.classify.support import Support
from fewset.classify.temperature import left_out_temperature

LEAST_SHOTS = 3
"""Different photos that a class needs to be tested: with two, one is left to learn from, and the answers are
9 to 18 points worse than the classifier's own."""
SUSPECT = 0.8
"""The probability of another class from which a photo looks mislabelled."""


@dataclass(frozen=True)
class Suspect:
    """A photo that the others take for another class."""

    photo: int
    looks_like: int
    probability: float


@dataclass(frozen=True)
class Confusion:
    """Photos of one class that were taken for another."""

    label: int
    taken_for: int
    photos: int


@dataclass(frozen=True)
class Trust:
    """What the labelled photos say about their classifier. Photos and classes are given by their numbers."""

    photos: int
    tested: int
    """Photos that were left out and classified by the others; copies of one photo count once."""
    right: int
    untested: tuple[int, ...]
    """Classes with too few photos to be tested."""
    copies: tuple[tuple[int, ...], ...]
    """Photos that are one and the same."""
    confusions: tuple[Confusion, ...]
    """The most frequent first."""
    suspects: tuple[Suspect, ...]
    """The surest first."""
    weakest: int
    """The class that another photo would help most."""
    temperature: float
    closeness: tuple[float, ...]
    """The largest cosine to the others of each photo, left out, that is not the only one of its class."""

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the accuracy on new photos like these; None where it cannot be told."""
        return left_out_interval(self.right, self.tested) if self.tested else None

    @property
    def in_words(self) -> str:
        """The interval as a sentence, or why there is none."""
        if self.interval is None:
            return (
                f"{self.photos} photos: how well it does cannot be told, which takes {LEAST_SHOTS} different "
                "photos of a class or more"
            )
        low, high = (round(100 * bound) for bound in self.interval)
        return f"{self.tested} photos: between {low} % and {high} %"


def examine(head: ClassifierHead, support: Support) -> Trust:
    """Leave each photo out, with its copies, and see what the others make of it."""
    labels, way = support.labels, len(support.classes)
    rows = prepared(support.features, head.power)
    copies = numbered_copies(rows, support.fingerprints)
    logits = left_out_logits(head, torch.from_numpy(rows), labels, way, copies)
    first = np.zeros(len(labels), dtype=bool)
    first[np.unique(copies, return_index=True)[1]] = True
    different = np.bincount(labels[first], minlength=way)
    testable = (different >= LEAST_SHOTS)[labels]

    temperature = left_out_temperature(logits[first & testable], labels[first & testable])
    probabilities = softmax(logits / temperature, axis=1)
    answers = logits.argmax(axis=1)
    tested = first & testable
    alone = closeness(support.features, labels).left_out(copies)
    return Trust(
        photos=len(labels),
        tested=int(tested.sum()),
        right=int((answers == labels)[tested].sum()),
        untested=tuple(np.flatnonzero(different < LEAST_SHOTS).tolist()),
        copies=_groups(copies),
        confusions=_confusions(labels[tested], answers[tested]),
        suspects=_suspects(labels, probabilities, testable),
        weakest=_weakest(labels, probabilities, different, tested),
        temperature=temperature,
        closeness=tuple(alone[~np.isnan(alone)].tolist()),
    )


def _groups(copies: Int[np.ndarray, "n"]) -> tuple[tuple[int, ...], ...]:
    several = np.flatnonzero(np.bincount(copies) > 1)
    return tuple(tuple(np.flatnonzero(copies == number).tolist()) for number in several)


def _confusions(labels: Int[np.ndarray, "m"], answers: Int[np.ndarray, "m"]) -> tuple[Confusion, ...]:
    wrong = labels != answers
    counted = Counter(zip(labels[wrong].tolist(), answers[wrong].tolist(), strict=True))
    return tuple(Confusion(*pair, count) for pair, count in counted.most_common())


def _suspects(
    labels: Int[np.ndarray, "n"],
    probabilities: Float[np.ndarray, "n N"],
    testable: Bool[np.ndarray, "n"],
) -> tuple[Suspect, ...]:
    answers = probabilities.argmax(axis=1)
    found = np.flatnonzero(testable & (answers != labels) & (probabilities.max(axis=1) >= SUSPECT))
    suspects = (
        Suspect(int(photo), int(answers[photo]), float(probabilities[photo].max())) for photo in found
    )
    return tuple(sorted(suspects, key=lambda suspect: -suspect.probability))


def _weakest(
    labels: Int[np.ndarray, "n"],
    probabilities: Float[np.ndarray, "n N"],
    different: Int[np.ndarray, "N"],
    tested: Bool[np.ndarray, "n"],
) -> int:
    """The class with the fewest photos, as long as one is untested; then the one least sure of its own."""
    if different.min() < LEAST_SHOTS:
        return int(different.argmin())
    own = probabilities[np.flatnonzero(tested), labels[tested]]
    sums = np.bincount(labels[tested], weights=own)
    return int((sums / np.bincount(labels[tested])).argmin())
