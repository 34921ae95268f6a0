"""The labelled photos that a classifier is made of, as it keeps them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt64

from fewset.classify.labels import plain_label
from fewset.classify.photos.rows import PhotoRow
from fewset.core.errors import UserError


@dataclass(frozen=True, eq=False)
class Support:
    """One row a photo, in the order in which they came. Rows of features have neither name nor thumbnail."""

    classes: np.ndarray
    """The labels, sorted, each once."""
    labels: Int64[np.ndarray, " n"]
    """The class of each photo, an index into `classes`."""
    features: Float32[np.ndarray, "n D"]
    names: tuple[str, ...]
    thumbnails: tuple[bytes, ...]
    fingerprints: UInt64[np.ndarray, " n"]
    groups: tuple[str, ...]
    """The group of each photo; "" for a photo without one."""
    taken: tuple[str, ...]
    """When each photo was taken and with which camera, as `fewset.classify.photos.taken` reads it."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shots(self) -> Int64[np.ndarray, " N"]:
        """How many photos each class has."""
        return np.bincount(self.labels, minlength=len(self.classes))

    @cached_property
    def order(self) -> Int64[np.ndarray, " n"]:
        """The places of the photos in an order that depends on their content alone, not on their names.

        It is that of a fixed random projection of the features. Unlike a digest it hardly changes where an
        encoder gives other last digits, as it may in another batch. Photos for which all of this is equal are
        interchangeable.
        """
        direction = np.random.default_rng(0).normal(size=self.features.shape[1])
        projections = (self.features * direction).sum(axis=1).tolist()  # row by row: as in any other order
        rows, prints = [row.tobytes() for row in self.features], self.fingerprints.tolist()
        labels = self.labels.tolist()
        keys = list(zip(projections, rows, prints, labels, self.groups, self.taken, strict=True))
        return np.array(sorted(range(len(self)), key=keys.__getitem__), dtype=np.int64)

    def take(self, chosen: Bool[np.ndarray, " n"] | Int64[np.ndarray, " m"]) -> "Support":
        """The chosen photos in the given order, and the classes that still have one."""
        places = np.arange(len(self))[chosen].tolist()
        kept, labels = np.unique(self.labels[chosen], return_inverse=True)
        return Support(
            self.classes[kept],
            labels,
            self.features[chosen],
            tuple(self.names[place] for place in places),
            tuple(self.thumbnails[place] for place in places),
            self.fingerprints[chosen],
            tuple(self.groups[place] for place in places),
            tuple(self.taken[place] for place in places),
        )

    def anonymous(self) -> "Support":
        """The same rows without what tells of people: pictures, names, times and cameras."""
        names = {group: f"group {number}" for number, group in enumerate(dict.fromkeys(self.groups), start=1)}
        return replace(
            self,
            names=tuple(f"photo {number}" for number in range(1, len(self) + 1)),
            thumbnails=(b"",) * len(self),
            groups=tuple(group and names[group] for group in self.groups),
            taken=("",) * len(self),
        )

    def unknown_to(self, other: "Support") -> Bool[np.ndarray, " n"]:
        """Which photos `other` does not have with the same label. Rows without photos are all unknown."""
        known = set(other._photos())
        return np.array([not photo[-1] or photo not in known for photo in self._photos()], dtype=bool)

    def _photos(self) -> Iterator[tuple[object, int, bytes]]:
        labels = self.classes[self.labels].tolist()
        return zip(labels, self.fingerprints.tolist(), self.thumbnails, strict=True)

    def renamed(self, old: object, new: object) -> "Support":
        """The photos of one class under another label, which may be that of a class."""
        classes = np.array([new if label == old else label for label in self.classes.tolist()])
        if classes.dtype.kind != np.array(self.classes.tolist()).dtype.kind:
            raise UserError(
                f"the label {new!r} is of another type than {old!r}; expected all labels as text, or all as "
                "numbers"
            )
        classes, labels = np.unique(classes[self.labels], return_inverse=True)
        return replace(self, classes=class_array(classes), labels=labels)

    def joined(self, other: "Support") -> "Support":
        """These, then the others."""
        if self.classes.dtype.kind != other.classes.dtype.kind:
            raise UserError(
                f"the label {plain_label(other.classes[0])!r} is of another type than "
                f"{plain_label(self.classes[0])!r}; expected all labels as text, or all as numbers"
            )
        classes = np.union1d(self.classes, other.classes)
        labels = [np.searchsorted(classes, part.classes)[part.labels] for part in (self, other)]
        return Support(
            classes,
            np.concatenate(labels),
            np.concatenate([self.features, other.features]),
            self.names + other.names,
            self.thumbnails + other.thumbnails,
            np.concatenate([self.fingerprints, other.fingerprints]),
            self.groups + other.groups,
            self.taken + other.taken,
        )


def class_array(classes: np.ndarray) -> np.ndarray:
    """The classes as a file has them: texts as text, whole numbers as int64, with room for -1."""
    if classes.dtype.kind == "O":
        return classes.astype(str)
    if classes.dtype.kind not in "iu":
        return classes
    if classes.max() > np.iinfo(np.int64).max:
        raise UserError(f"got the label {classes.max()}, expected numbers below 2^63; use texts as labels")
    return classes.astype(np.int64)


def support_of_rows(
    features: Float32[np.ndarray, "n D"], labels: np.ndarray, groups: tuple[str, ...] | None = None
) -> Support:
    """Rows of features without photos; `labels` are those of the user."""
    classes, indices = np.unique(labels, return_inverse=True)
    nothing, fingerprints = ("",) * len(labels), np.zeros(len(labels), np.uint64)
    thumbnails = (b"",) * len(labels)
    classes = class_array(classes)
    return Support(classes, indices, features, nothing, thumbnails, fingerprints, groups or nothing, nothing)


def support_of_photos(rows: Sequence[PhotoRow], labels: np.ndarray) -> Support:
    """Photos that could be read."""
    return replace(
        support_of_rows(np.stack([row.features for row in rows]), labels, tuple(row.group for row in rows)),
        names=tuple(row.name for row in rows),
        thumbnails=tuple(row.thumbnail for row in rows),
        fingerprints=np.array([row.fingerprint for row in rows], dtype=np.uint64),
        taken=tuple(row.taken for row in rows),
    )


def group_names(groups: Any, count: int) -> tuple[str, ...]:
    """The groups of `count` photos as texts; None, for one photo or for all, means no group."""
    if groups is None:
        return ("",) * count
    from sklearn.utils.validation import column_or_1d

    given = column_or_1d(np.asarray(groups, dtype=object))
    if len(given) != count:
        raise UserError(f"there are {count} photos and {len(given)} groups, expected one for each photo")
    return tuple("" if group is None or group != group else str(group) for group in given)
