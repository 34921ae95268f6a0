"""How far to trust a classifier: each labelled photo is classified by the others."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from fewset.classify.heads import ClassifierHead, prepared, softmax
from fewset.classify.photos.support import Support
from fewset.classify.trust.calibration import Interval, left_out_interval, left_out_temperature
from fewset.classify.trust.copies import numbered_copies, numbered_groups
from fewset.classify.trust.leave_one_out import MOST_FITS, left_out_logits
from fewset.classify.trust.rejection import closeness

LEAST_SHOTS = 3
"""Different photos that a class needs to be tested. With two, a test fit sees one, and its accuracy is 9 to
18 points below the classifier's own."""
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
    """The findings about a classifier. Photos and classes are given by their indices."""

    photos: int
    tested: int
    """Photos that were left out and classified by the others; copies of one photo count once."""
    right: int
    untested: tuple[int, ...]
    """Classes with too few photos to be tested."""
    copies: tuple[tuple[int, ...], ...]
    """Groups of copies of one photo."""
    confusions: tuple[Confusion, ...]
    """The most frequent first."""
    suspects: tuple[Suspect, ...]
    """The surest first."""
    weakest: int
    """The class that another photo would help most."""
    temperature: float
    closeness: tuple[float, ...]
    """The largest cosine to the others of each photo, left out, that is not the only one of its class."""
    groups: int | None = None
    """The number of groups of the tested photos; None where there are no groups."""
    left: float = 1.0
    """The share of the photos (or groups) of a class that the test fits saw, on average; 1 in older files."""

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the accuracy on new photos like these; None where it is unknown."""
        return left_out_interval(self.right, self.tested, self.groups, self.left) if self.tested else None

    @property
    def unit(self) -> str:
        """What is left out, a few at a time."""
        return "photos" if self.groups is None else "groups"

    @property
    def in_words(self) -> str:
        """The interval as a sentence, or why there is none."""
        method, groups = "leave-one-out", ""
        if self.groups is not None:
            method, groups = "leave-one-group-out", f" of {self.groups} groups"
        if self.interval is None:
            found = f"unknown; {method} needs {LEAST_SHOTS} different {self.unit} of a class or more"
        else:
            low, high = (round(100 * bound) for bound in self.interval)
            found = f"{low} to {high} % (95 % interval, {method} on {self.tested:,} photos{groups})"
        return f"Expected accuracy on new photos: {found}"


def examine(head: ClassifierHead, support: Support) -> Trust:
    """Leave each photo out, with its copies and its group, and classify it by the others."""
    labels, way = support.labels, len(support.classes)
    rows = prepared(support.features, head.power)
    copies = numbered_copies(rows, support.fingerprints)
    together = numbered_groups(support.groups, copies)
    logits = left_out_logits(head, rows, labels, way, together)
    different = np.bincount(labels[_firsts(together * way + labels)], minlength=way)
    testable = (different >= LEAST_SHOTS)[labels] & ~np.isnan(logits[:, 0])
    tested = _firsts(copies) & testable
    untested = np.flatnonzero(np.bincount(labels[tested], minlength=way) == 0)

    groups = len(np.unique(together[tested])) if any(support.groups) else None
    temperature = left_out_temperature(logits[tested], labels[tested], groups)
    probabilities = softmax(logits / temperature)
    answers = logits.argmax(axis=1)
    alone = closeness(support.features, labels).left_out(together)
    return Trust(
        photos=len(labels),
        tested=int(tested.sum()),
        right=int((answers == labels)[tested].sum()),
        untested=tuple(untested.tolist()),
        copies=_groups(copies),
        confusions=_confusions(labels[tested], answers[tested]),
        suspects=_suspects(labels, probabilities, testable),
        weakest=_weakest(labels, probabilities, tested, different, untested),
        temperature=temperature,
        closeness=tuple(alone[~np.isnan(alone)].tolist()),
        groups=groups,
        left=float(1 - (1 / np.minimum(different, MOST_FITS)[labels[tested]]).mean()) if any(tested) else 1.0,
    )


def _firsts(numbers: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Whether each photo is the first with its number."""
    first = np.zeros(len(numbers), dtype=bool)
    first[np.unique(numbers, return_index=True)[1]] = True
    return first


def _groups(copies: Int[np.ndarray, " n"]) -> tuple[tuple[int, ...], ...]:
    several = np.flatnonzero(np.bincount(copies) > 1)
    return tuple(tuple(np.flatnonzero(copies == number).tolist()) for number in several)


def _confusions(labels: Int[np.ndarray, " m"], answers: Int[np.ndarray, " m"]) -> tuple[Confusion, ...]:
    wrong = labels != answers
    counted = Counter(zip(labels[wrong].tolist(), answers[wrong].tolist(), strict=True))
    return tuple(Confusion(*pair, count) for pair, count in counted.most_common())


def _suspects(
    labels: Int[np.ndarray, " n"],
    probabilities: Float[np.ndarray, "n N"],
    testable: Bool[np.ndarray, " n"],
) -> tuple[Suspect, ...]:
    answers, sure = probabilities.argmax(axis=1), probabilities.max(axis=1)
    found = np.flatnonzero(testable & (answers != labels) & (sure >= SUSPECT))
    suspects = (Suspect(int(photo), int(answers[photo]), float(sure[photo])) for photo in found)
    return tuple(sorted(suspects, key=lambda suspect: -suspect.probability))


def _weakest(
    labels: Int[np.ndarray, " n"],
    probabilities: Float[np.ndarray, "n N"],
    tested: Bool[np.ndarray, " n"],
    different: Int[np.ndarray, " N"],
    untested: Int[np.ndarray, " u"],
) -> int:
    """The untested class with the fewest photos, while there is one; then the one least sure of its own."""
    if len(untested):
        return int(untested[different[untested].argmin()])
    own = probabilities[np.flatnonzero(tested), labels[tested]]
    sums = np.bincount(labels[tested], weights=own)
    return int((sums / np.bincount(labels[tested])).argmin())
