"""The state behind the page: an album, the steps that can be undone, the photos that were tried. No HTTP."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np

from fewset.classify.embedding import chosen_encoder, encoder_of
from fewset.classify.model import EncoderStamp, Learned, learn
from fewset.classify.photos.rows import PhotoRow
from fewset.classify.predict.answers import Answer, Predictor, unreadable
from fewset.classify.saving import load_classifier, save_classifier
from fewset.classify.serve.album import Album, AlbumPhoto, in_words, photo_rows_of
from fewset.classify.serve.embedding_queue import EmbeddingQueue
from fewset.classify.suggest.choice import next_to_label
from fewset.classify.trust.rejection import SHARE
from fewset.core.errors import UserError

MOST_STEPS = 100
"""That can be undone."""
MOST_TRIED = 1000
"""Photos that were tried and are kept; the oldest are dropped."""
TOP = 3


@dataclass(frozen=True, eq=False)
class Moment:
    """A consistent snapshot of the workbench."""

    revision: int
    album: Album
    learned: Learned | None
    """None as long as fewer than two classes have photos."""
    tried: tuple[AlbumPhoto, ...]
    undo: str | None
    """What would be undone."""
    learning: bool = False
    """Whether `learned` is still to come."""

    def answers(self, rows: Iterable[PhotoRow], top: int = TOP) -> list[Answer]:
        """The classifier's answers for photos."""
        return list(Predictor(self.ready(), top, self.album.share).answers(rows))

    def tried_answers(self) -> list[Answer]:
        """The answers for the photos that were tried; empty ones as long as there is no classifier."""
        rows = [photo.row for photo in self.tried]
        return self.answers(rows) if self.learned else [unreadable(row.name, "") for row in rows]

    def save(self, path: Path) -> None:
        """Write the classifier as a .fewset file."""
        save_classifier(self.ready(), self.album.share, path)

    def next_to_name(self, count: int) -> list[AlbumPhoto]:
        """The photos that were tried and whose label would help most; none that has a label already."""
        if not self.tried:
            return []
        features = np.stack([photo.row.features for photo in self.tried])
        return [self.tried[each] for each in next_to_label(self.ready(), features, count)]

    def ready(self) -> Learned:
        """The classifier, or an error as long as there is none."""
        if self.learned is None:
            raise UserError("there is no classifier yet; give at least two classes a photo or more each")
        return self.learned


class _Step(NamedTuple):
    what: str
    name: str
    before: Album


class Workbench:
    """Safe to use from several threads. It learns in a thread of its own, when the result is needed."""

    def __init__(
        self, stamp: EncoderStamp, learned: Learned | None = None, share: float | None = SHARE
    ) -> None:
        """Empty, or with the photos of a classifier, which stays as it is until they change."""
        self.stamp = stamp
        self._album = Album()
        self.usual_share = SHARE
        """The last share that was not None: what turning "none of these" on again sets."""
        self._learned: Learned | None = None
        self._learned_from = self._album.photos
        self._steps: deque[_Step] = deque(maxlen=MOST_STEPS)
        self._tried: dict[int, AlbumPhoto] = {}
        self._numbers = count()
        self._revision = 0
        self._changing = Lock()
        self._thread = ThreadPoolExecutor(1, "learn")
        self._coming: Future[Moment] | None = None
        if learned is not None:
            self.open(learned, share)

    def change(self, what: str, changed: Callable[[Album], Album], step: str = "") -> None:
        """Take a step that can be undone; `what` describes it in a few words. No step if nothing changes.

        Changes that follow each other under the same name of a step are one step.
        """
        with self._changing:
            album = changed(self._album)
            if album is self._album:
                return
            if not (step and self._steps and self._steps[-1].name == step):
                self._steps.append(_Step(what, step, self._album))
            self._put(album)

    def undo(self) -> str:
        """Take the last step back, and say what it was."""
        with self._changing:
            if not self._steps:
                raise UserError("there is nothing to undo")
            last = self._steps.pop()
            self._put(last.before)
            return last.what

    def add(self, label: str, rows: Sequence[PhotoRow], step: str = "") -> list[AlbumPhoto]:
        """New photos of a class, which may be new, too."""
        photos = self._numbered(rows)
        what = "adding photos" if step else f"adding {in_words(rows)} to {label.strip()}"
        self.change(what, lambda album: album.with_photos(label, photos), step)
        return photos

    def open(self, learned: Learned, share: float | None) -> None:
        """Replace the album by the photos of a classifier. This is not a step that can be undone."""
        support = learned.support
        labels = [str(label) for label in support.classes[support.labels].tolist()]
        photos = zip(self._numbered(photo_rows_of(support)), labels, strict=True)
        album = Album(
            tuple(dict.fromkeys(labels)),
            tuple(photo._replace(label=label) for photo, label in photos),
            share,
            learned.head,
            learned.background,
        )
        with self._changing:
            self._steps.clear()
            self._put(album)
            if support.classes.dtype.kind == "U":  # numbers became texts, in another order
                # The encoder is the same, but it may have moved since the file was written.
                self._learned, self._learned_from = replace(learned, encoder=self.stamp), album.photos

    def try_out(self, rows: Sequence[PhotoRow]) -> list[AlbumPhoto]:
        """Keep photos that are classified again after every change."""
        photos = self._numbered(rows)
        with self._changing:
            tried = [*self._tried.items(), *((photo.number, photo) for photo in photos)]
            self._tried = dict(tried[-MOST_TRIED:])
            self._revision += 1
        return photos

    def teach(self, numbers: Sequence[int], label: str) -> None:
        """Put photos that were tried into a class."""
        photos = [self._tried_photo(number) for number in dict.fromkeys(numbers)]
        what = f"adding {in_words(photos)} to {label.strip()}"
        self.change(what, lambda album: album.with_photos(label, photos))

    def forget(self, numbers: Iterable[int]) -> None:
        """Remove photos that were tried."""
        with self._changing:
            for number in numbers:
                self._tried.pop(number, None)
            self._revision += 1

    def thumbnail(self, number: int) -> bytes:
        """The small JPEG of any photo that is here."""
        return (self._album.by_number.get(number) or self._tried_photo(number)).row.thumbnail

    def moment(self, patience: float | None = None) -> Moment:
        """Everything as it is now; waits until the last change is learned, but not longer than `patience`."""
        moment = self._snapshot()
        revision = moment.revision
        while patience is None and (moment.learning or moment.revision < revision):
            moment = self._start_learning().result()
        if moment.learning:
            with suppress(TimeoutError):
                self._start_learning().result(patience)
            moment = self._snapshot()
        return moment

    def _start_learning(self) -> "Future[Moment]":
        with self._changing:
            if self._coming is None or self._coming.done():
                self._coming = self._thread.submit(self._learn)
            return self._coming

    def _learn(self) -> Moment:
        """Learn until nothing has changed meanwhile: once for many changes that follow each other."""
        while (moment := self._snapshot()).learning:
            album, support = moment.album, moment.album.support()
            learned = None if support is None else learn(album.head, support, self.stamp, album.background)
            with self._changing:
                self._learned, self._learned_from = learned, album.photos
        return moment

    def _snapshot(self) -> Moment:
        with self._changing:
            undo = self._steps[-1].what if self._steps else None
            learning = self._album.photos is not self._learned_from
            learned = None if learning else self._learned
            return Moment(self._revision, self._album, learned, tuple(self._tried.values()), undo, learning)

    def _put(self, album: Album) -> None:
        self._album = album
        self._revision += 1
        if album.share is not None:
            self.usual_share = album.share

    def _tried_photo(self, number: int) -> AlbumPhoto:
        photo = self._tried.get(number)
        if photo is None:
            raise UserError(f"there is no photo {number} here; it may have been removed")
        return photo

    def _numbered(self, rows: Sequence[PhotoRow]) -> list[AlbumPhoto]:
        with self._changing:
            return [AlbumPhoto(next(self._numbers), row) for row in rows]


def open_workbench(
    path: Path | None = None, encoder: str | None = None, device: str = "auto"
) -> tuple[Workbench, EmbeddingQueue]:
    """A workbench, empty or with the classifier of a file, and the queue that embeds photos for it.

    The encoder of a file is found by the name that it has there, unless another place is given.
    """
    learned, share = (None, SHARE) if path is None else load_classifier(path)
    found = encoder_of(learned, encoder, device) if learned else chosen_encoder(encoder or "auto", device)
    return Workbench(EncoderStamp(found.id, found.digest), learned, share), EmbeddingQueue(found)
