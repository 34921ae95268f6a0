"""How far to trust a classifier: each labelled photo is classified by the others."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from fewset.classify.heads import ClassifierHead, prepared, softmax
from fewset.classify.photos.support import Support
from fewset.classify.trust.calibration import (
    SURER_ON_ONE_OCCASION,
    Interval,
    left_out_interval,
    left_out_temperature,
    usual_temperature,
)
from fewset.classify.trust.copies import numbered_copies, numbered_groups
from fewset.classify.trust.leave_one_out import MOST_FITS, left_out_logits
from fewset.classify.trust.occasions import numbered_occasions
from fewset.classify.trust.rejection import closeness

LEAST_SHOTS = 3
"""Different photos that a class needs to be tested. With two, a test fit sees one, and its accuracy is 9 to
18 points below the classifier's own."""
LEAST_OCCASIONS = 2
"""Occasions that a class needs to be tested by leaving out occasions. With two, of several photos each, the
accuracy is right on average once it is corrected for what the test fits see."""
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
    """That of each photo, left out, to the others; without photos that are alone in their class."""
    groups: int | None = None
    """The number of groups of the tested photos; None where there are no groups."""
    left: float = 1.0
    """The share of the photos (or groups) of a class that the test fits saw, on average; 1 in older files."""
    occasions: int | None = None
    """The number of occasions on which the photos were taken, where that was found out; None where the user
    gave groups, and where no two photos were taken together."""
    one_occasion: bool = False
    """Whether most photos are of classes with one occasion only: then photos are left out, not occasions."""

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the accuracy on new photos, of new occasions too; None where it is unknown."""
        if not self.tested:
            return None
        return left_out_interval(self.right, self.tested, self.groups, self.left, self.one_occasion)

    @property
    def same_occasions(self) -> Interval | None:
        """The interval on new photos of the same occasions, where each class has one; None elsewhere."""
        if not self.tested or not self.one_occasion:
            return None
        return left_out_interval(self.right, self.tested, None, self.left)

    @property
    def calibrated(self) -> bool:
        """Whether the temperature was learned from left-out photos."""
        return self.tested > 0

    @property
    def least(self) -> str:
        """What a class needs to be tested."""
        if self.groups is None:
            return f"{LEAST_SHOTS} different photos"
        if self.occasions is None:
            return f"{LEAST_SHOTS} different groups"
        return f"{LEAST_SHOTS} different photos of {LEAST_OCCASIONS} occasions"

    @property
    def in_words(self) -> str:
        """The interval as a sentence, or why there is none."""
        method = "leave-one-out" if self.groups is None else "leave-one-group-out"
        if self.occasions is not None and self.groups is not None:
            method = "leave-one-occasion-out"
        if self.interval is None:
            return (
                "Expected accuracy on new photos: unknown, and probabilities are not calibrated; "
                f"{method} needs {self.least} of a class or more"
            )
        units = "groups" if self.occasions is None else "occasions"
        groups = f" of {self.groups} {units}" if self.groups is not None else ""
        evidence = f"95 % interval, {method} on {self.tested:,} photos{groups}"
        if self.same_occasions is not None:
            return (
                f"Expected accuracy on a new occasion: {_percent(self.interval)}, which is less certain than "
                f"on the same occasions: {_percent(self.same_occasions)} ({evidence})"
            )
        where = "new photos" if self.occasions is None else "a new occasion"
        return f"Expected accuracy on {where}: {_percent(self.interval)} ({evidence})"

    @property
    def occasions_in_words(self) -> str | None:
        """How many occasions there are, with a warning where most classes have one; None where unknown."""
        if self.occasions is None:
            return None
        several = "s" * (self.occasions != 1)
        found = (
            f"your {self.photos:,} photos come from {self.occasions:,} occasion{several}, "
            "by their times, cameras, file names and likeness"
        )
        if not self.one_occasion:
            return found
        return f"{found}; warning: most classes have one occasion only; add photos from another time or place"


def _percent(interval: Interval) -> str:
    low, high = (round(100 * bound) for bound in interval)
    return f"{low} to {high} %"


def examine(head: ClassifierHead, support: Support) -> Trust:
    """Leave each photo out, with its copies and its group, and classify it by the others.

    The result is the same to the last digit for any order of the photos.
    """
    order = support.order
    found = _examine(head, support.take(order))
    return replace(
        found,
        copies=tuple(sorted(tuple(sorted(order[list(group)].tolist())) for group in found.copies)),
        suspects=tuple(replace(suspect, photo=int(order[suspect.photo])) for suspect in found.suspects),
    )


def _examine(head: ClassifierHead, support: Support) -> Trust:
    """The findings on photos whose order comes from their content."""
    labels, way = support.labels, len(support.classes)
    rows = prepared(support.features, head.power)
    copies = numbered_copies(rows, support.fingerprints)
    different = _numbers_a_class(copies, labels, way)
    together, least, grouped = numbered_groups(support.groups, copies), LEAST_SHOTS, any(support.groups)
    occasions, one_occasion = None, False
    if not grouped:
        taken = numbered_occasions(support, rows, copies)
        if len(np.unique(taken)) < len(np.unique(copies)):
            occasions = len(np.unique(taken))
            alone = (_numbers_a_class(taken, labels, way) < LEAST_OCCASIONS) & (different > 1)
            one_occasion = bool(alone[labels].mean() > 1 / 2)
            if not one_occasion:
                together, least, grouped = taken, LEAST_OCCASIONS, True
    logits = left_out_logits(head, rows, labels, way, together)
    units = _numbers_a_class(together, labels, way)
    testable = ((units >= least) & (different >= LEAST_SHOTS))[labels] & ~np.isnan(logits[:, 0])
    tested = _firsts(copies) & testable
    untested = np.flatnonzero(np.bincount(labels[tested], minlength=way) == 0)

    groups = len(np.unique(together[tested])) if grouped else None
    if any(tested):
        temperature = left_out_temperature(logits[tested], labels[tested], groups)
        temperature *= SURER_ON_ONE_OCCASION if one_occasion else 1
    else:
        temperature = usual_temperature(rows, labels, getattr(head, "usual_temperature", None))
    probabilities = softmax(logits / temperature)
    answers = logits.argmax(axis=1)
    near = closeness(support.features, labels).left_out(together)
    return Trust(
        photos=len(labels),
        tested=int(tested.sum()),
        right=int((answers == labels)[tested].sum()),
        untested=tuple(untested.tolist()),
        copies=_groups(copies),
        confusions=_confusions(labels[tested], answers[tested]),
        suspects=_suspects(labels, probabilities, testable),
        weakest=_weakest(labels, probabilities, tested, units, untested),
        temperature=temperature,
        closeness=tuple(sorted(near[~np.isnan(near)].tolist())),
        groups=groups,
        left=float(1 - (1 / np.minimum(units, MOST_FITS)[labels[tested]]).mean()) if any(tested) else 1.0,
        occasions=occasions,
        one_occasion=one_occasion,
    )


def _numbers_a_class(
    numbers: Int[np.ndarray, " n"], labels: Int[np.ndarray, " n"], way: int
) -> Int[np.ndarray, " N"]:
    """How many different numbers the photos of each class have."""
    return np.bincount(labels[_firsts(numbers * way + labels)], minlength=way)


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
