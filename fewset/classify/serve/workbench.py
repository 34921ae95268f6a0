"""What a person works on in the page: an album, the steps back, the photos that were tried. No HTTP here."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count, islice
from threading import Lock, Thread
from time import monotonic, sleep
from typing import NamedTuple

from fewset.classify.background.head import Background
from fewset.classify.model import EncoderStamp, Learned, learn
from fewset.classify.photos.rows import PhotoRow
from fewset.classify.predict.answers import Answer, answered, unreadable
from fewset.classify.serve.album import Album, NumberedPhoto, album_of, in_words
from fewset.classify.trust.rejection import SHARE
from fewset.core.errors import UserError

MOST_STEPS = 100
"""That can be undone."""
MOST_TRIED = 1000
"""Photos that were tried and are kept; the oldest are forgotten."""
TOP = 3
LONGEST_PAUSE = 2.0
"""Seconds without a change, at most, before another thread learns."""


@dataclass(frozen=True, eq=False)
class Moment:
    """The workbench at one moment: all of it belongs together."""

    revision: int
    album: Album
    learned: Learned | None
    """None as long as there is too little to learn from."""
    tried: tuple[NumberedPhoto, ...]
    undo: str | None
    """What would be undone."""
    learning: bool = False
    """Whether `learned` is still to come."""

    def answers(self, rows: Sequence[PhotoRow], top: int = TOP) -> list[Answer]:
        """What the classifier says of photos."""
        return list(answered(self.ready(), rows, top, self.album.share))

    def tried_answers(self) -> list[Answer]:
        """What it says of the photos that were tried; that it cannot tell, as long as there is none."""
        rows = [photo.row for photo in self.tried]
        return self.answers(rows) if self.learned else [unreadable(row.name, "") for row in rows]

    def ready(self) -> Learned:
        """What was learned, or an error as long as there is nothing."""
        if self.learned is None:
            raise UserError("there is no classifier yet; give at least two classes a photo or more each")
        return self.learned


class _Step(NamedTuple):
    what: str
    group: str
    before: Album


class Workbench:
    """Safe to use from several threads. Learning is put off until somebody asks for what was learned."""

    def __init__(self, stamp: EncoderStamp, head: str = "auto", background: Background | None = None) -> None:
        self.stamp, self.head, self.background = stamp, head, background
        self._album = Album()
        self.usual_share = SHARE
        """The last share that was not None: what turning "none of these" on again sets."""
        self._learned: Learned | None = None
        self._learned_from = self._album.photos
        self._steps: deque[_Step] = deque(maxlen=MOST_STEPS)
        self._tried: dict[int, PhotoRow] = {}
        self._numbers = count()
        self._revision = 0
        self._changing, self._learning = Lock(), Lock()
        self._coming: Future[None] | None = None  # done when a thread has learned
        self._seconds = 0.0  # that learning took the last time

    @classmethod
    def opened(cls, learned: Learned, stamp: EncoderStamp, share: float | None) -> "Workbench":
        """With the photos of a classifier, which answers as it did until they change."""
        bench = cls(stamp, learned.head, learned.background)
        bench._put(album_of(learned.support, share))
        bench._numbers = count(len(learned.support))
        if learned.support.classes.dtype.kind == "U":  # numbers became texts, in another order
            # The encoder is the same, but it may have moved since the file was written.
            bench._learned, bench._learned_from = replace(learned, encoder=stamp), bench._album.photos
        return bench

    @property
    def revision(self) -> int:
        """Changes with whatever the page shows."""
        return self._revision

    def change(self, what: str, step: Callable[[Album], Album], group: str = "") -> None:
        """Take a step that can be undone; `what` it was is said in a few words. None if nothing changes.

        Steps of one group that follow each other are undone together.
        """
        with self._changing:
            album = step(self._album)
            if album is self._album:
                return
            if not (group and self._steps and self._steps[-1].group == group):
                self._steps.append(_Step(what, group, self._album))
            self._put(album)

    def undo(self) -> str:
        """Take the last step back, and say what it was."""
        with self._changing:
            if not self._steps:
                raise UserError("there is nothing to undo")
            last = self._steps.pop()
            self._put(last.before)
            return last.what

    def add(self, label: str, rows: Sequence[PhotoRow], group: str = "") -> list[NumberedPhoto]:
        """New photos of a class, which may be new, too."""
        photos = self._numbered(rows)
        what = "adding photos" if group else f"adding {in_words(rows)} to {label.strip()}"
        self.change(what, lambda album: album.with_photos(label, photos), group)
        return photos

    def try_out(self, rows: Sequence[PhotoRow]) -> list[NumberedPhoto]:
        """Keep photos to be classified, now and whenever there is more to learn from."""
        photos = self._numbered(rows)
        with self._changing:
            self._tried.update(photos)
            for number in list(islice(self._tried, max(0, len(self._tried) - MOST_TRIED))):
                del self._tried[number]
            self._revision += 1
        return photos

    def teach(self, numbers: Sequence[int], label: str) -> None:
        """Put photos that were tried into a class."""
        photos = [NumberedPhoto(number, self._row(number)) for number in dict.fromkeys(numbers)]
        what = f"adding {in_words(photos)} to {label.strip()}"
        self.change(what, lambda album: album.with_photos(label, photos))

    def forget(self, numbers: Iterable[int]) -> None:
        """Put photos that were tried away."""
        with self._changing:
            for number in numbers:
                self._tried.pop(number, None)
            self._revision += 1

    def thumbnail(self, number: int) -> bytes:
        """The small JPEG of any photo that is here."""
        photo = self._album.by_number.get(number)
        return photo.row.thumbnail if photo else self._row(number).thumbnail

    def moment(self) -> Moment:
        """Everything as it is now; learns first, when photos or labels have changed."""
        with self._learning:
            moment = self._snapshot()
            if not moment.learning:
                return moment
            started = monotonic()
            support = moment.album.support()
            learned = None
            if support is not None:
                learned = learn(self.head, support, self.stamp, self.background)
            with self._changing:
                self._learned, self._learned_from = learned, moment.album.photos
            self._seconds = monotonic() - started
            return replace(moment, learned=learned, learning=False)

    def soon(self, patience: float) -> Moment:
        """Everything as it is now, after `patience` seconds at most: another thread learns, if need be."""
        coming = self._start_learning()
        if coming is not None:
            with suppress(TimeoutError):
                coming.result(patience)
        return self._snapshot()

    def _start_learning(self) -> "Future[None] | None":
        with self._changing:
            if self._album.photos is self._learned_from:
                return None
            coming = self._coming
            if coming is None:
                coming = self._coming = Future()
                Thread(target=self._learn_after_a_pause, args=(coming,), name="learn", daemon=True).start()
            elif coming.done():  # it failed: the caller hears of it, and the next one starts again
                self._coming = None
            return coming

    def _learn_after_a_pause(self, coming: "Future[None]") -> None:
        """Learn once for many changes that follow each other; the pause is longer where learning is slow."""
        try:
            album = None
            while album is not self._album:
                album = self._album
                sleep(min(LONGEST_PAUSE, self._seconds / 5))
            self.moment()
        except Exception as error:
            coming.set_exception(error)
            return
        with self._changing:
            self._coming = None
        coming.set_result(None)

    def _snapshot(self) -> Moment:
        with self._changing:
            undo = self._steps[-1].what if self._steps else None
            tried = tuple(NumberedPhoto(number, row) for number, row in self._tried.items())
            learning = self._album.photos is not self._learned_from
            return Moment(
                self._revision, self._album, None if learning else self._learned, tried, undo, learning
            )

    def _put(self, album: Album) -> None:
        self._album = album
        self._revision += 1
        if album.share is not None:
            self.usual_share = album.share

    def _row(self, number: int) -> PhotoRow:
        row = self._tried.get(number)
        if row is None:
            raise UserError(f"there is no photo {number} here; it may have been removed")
        return row

    def _numbered(self, rows: Sequence[PhotoRow]) -> list[NumberedPhoto]:
        with self._changing:
            return [NumberedPhoto(next(self._numbers), row) for row in rows]
