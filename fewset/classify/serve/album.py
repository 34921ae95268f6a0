"""Classes and their photos while a user sorts them: an immutable value; each step gives another."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fewset.classify.background.comparison import Background
from fewset.classify.labels import check_class_names
from fewset.classify.photos.rows import PhotoRow
from fewset.classify.photos.support import Support, support_of_photos
from fewset.classify.trust.rejection import SHARE
from fewset.core.errors import UserError

MOST_PHOTOS = 20_000


class AlbumPhoto(NamedTuple):
    """A photo with its number; its label is "" as long as it is in no class."""

    number: int
    row: PhotoRow
    label: str = ""


@dataclass(frozen=True, eq=False)
class Album:
    """Classes, which may be empty, their photos, and how a classifier learns from them."""

    classes: tuple[str, ...] = ()
    photos: tuple[AlbumPhoto, ...] = ()
    share: float | None = SHARE
    """The allowed false-rejection rate of "none of these"; None: no photo is rejected."""
    head: str = "auto"
    background: Background | None = None

    @cached_property
    def by_number(self) -> dict[int, AlbumPhoto]:
        """The photos by number: the page asks for thousands of thumbnails, one by one."""
        return {photo.number: photo for photo in self.photos}

    def with_class(self, name: str) -> "Album":
        name = checked_class(name)
        if name in self.classes:
            raise UserError(f"there is a class {name!r} already; choose another name")
        return replace(self, classes=(*self.classes, name))

    def with_photos(self, label: str, photos: Iterable[AlbumPhoto]) -> "Album":
        """More photos of a class, which may be new; photos of the album move to it."""
        label = checked_class(label)
        there = self if label in self.classes else self.with_class(label)
        given = tuple(photo._replace(label=label) for photo in photos)
        numbers = {photo.number for photo in given}
        kept = tuple(photo for photo in there.photos if photo.number not in numbers)
        if len(kept) + len(given) > MOST_PHOTOS:
            raise UserError(f"that would be more than {MOST_PHOTOS} photos, which are not possible here")
        return replace(there, photos=kept + given)

    def renamed(self, name: str, new_name: str) -> "Album":
        self._check_known(name)
        new_name = checked_class(new_name)
        if new_name == name:
            return self
        if new_name in self.classes:
            raise UserError(f"there is a class {new_name!r} already; move the photos to it instead")
        renamed = replace(self, classes=tuple(new_name if each == name else each for each in self.classes))
        return renamed._relabelled(new_name, lambda photo: photo.label == name)

    def without_class(self, name: str) -> "Album":
        self._check_known(name)
        return replace(
            self,
            classes=tuple(each for each in self.classes if each != name),
            photos=tuple(photo for photo in self.photos if photo.label != name),
        )

    def moved(self, numbers: Iterable[int], label: str) -> "Album":
        self._check_known(label)
        chosen = self._chosen(numbers)
        return self._relabelled(label, lambda photo: photo.number in chosen)

    def without_photos(self, numbers: Iterable[int]) -> "Album":
        chosen = self._chosen(numbers)
        return replace(self, photos=tuple(photo for photo in self.photos if photo.number not in chosen))

    def with_share(self, share: float | None) -> "Album":
        return self if share == self.share else replace(self, share=share)

    def support(self) -> Support | None:
        """The labelled photos for a fit; None as long as fewer than two classes have photos."""
        if len({photo.label for photo in self.photos}) < 2:
            return None
        labels = np.array([photo.label for photo in self.photos])
        return support_of_photos([photo.row for photo in self.photos], labels)

    def _relabelled(self, label: str, chosen: Callable[[AlbumPhoto], bool]) -> "Album":
        photos = (photo._replace(label=label) if chosen(photo) else photo for photo in self.photos)
        return replace(self, photos=tuple(photos))

    def _check_known(self, name: str) -> None:
        if name not in self.classes:
            raise UserError(f"there is no class {name[:100]!r} here; it may have been renamed or removed")

    def _chosen(self, numbers: Iterable[int]) -> set[int]:
        chosen = set(numbers)
        unknown = chosen - self.by_number.keys()
        if unknown:
            raise UserError(f"there is no photo {min(unknown)} here; it may have been removed")
        return chosen


def photo_rows_of(support: Support) -> list[PhotoRow]:
    """The photos that a classifier was made from."""
    fingerprints, problems = support.fingerprints.tolist(), [""] * len(support)
    columns = support.names, support.features, support.thumbnails, fingerprints, problems
    return list(map(PhotoRow, *columns, support.groups, support.taken))


def checked_class(name: str) -> str:
    """The name without spaces around it, or an error if it is not allowed."""
    name = name.strip()
    check_class_names(np.array([name], dtype=object))
    return name


def in_words(photos: Sequence[object]) -> str:
    """How many there are."""
    return "1 photo" if len(photos) == 1 else f"{len(photos)} photos"
