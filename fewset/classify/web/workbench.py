"""What a person works on in the page: an album, the steps back, the photos that were tried. No HTTP here."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from threading import Lock
from typing import NamedTuple

from fewset.classify.answering import answered
from fewset.classify.answers import Answer, unreadable
from fewset.classify.background import Background
from fewset.classify.learned import EncoderStamp, Learned, learn
from fewset.classify.photo_rows import PhotoRow
from fewset.classify.support import Support
from fewset.classify.web.album import Album, NumberedPhoto, album_of, in_words
from fewset.runtime.errors import UserError

MOST_STEPS = 100
"""That can be undone."""
MOST_TRIED = 1000
"""Photos that were tried and are kept; the oldest are forgotten."""
TOP = 3


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
        self._learned: Learned | None = None
        self._learned_from = self._album.photos
        self._steps: deque[_Step] = deque(maxlen=MOST_STEPS)
        self._tried: dict[int, PhotoRow] = {}
        self._numbers = count()
        self._revision = 0
        self._changing, self._learning = Lock(), Lock()

    @classmethod
    def opened(cls, learned: Learned, stamp: EncoderStamp, share: float | None) -> "Workbench":
        """With the photos of a classifier, which answers as it did until they change."""
        bench = cls(stamp, learned.head, learned.background)
        bench._album = album_of(learned.support, share)
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
        for photo in self._album.photos:
            if photo.number == number:
                return photo.row.thumbnail
        return self._row(number).thumbnail

    def moment(self) -> Moment:
        """Everything as it is now; learns first, when photos or labels have changed."""
        with self._learning:
            with self._changing:
                album, tried, revision = self._album, dict(self._tried), self._revision
                undo = self._steps[-1].what if self._steps else None
            if album.photos is not self._learned_from:
                support = album.support()
                self._learned = self._learn(support) if support is not None else None
                self._learned_from = album.photos
            shown = tuple(NumberedPhoto(number, row) for number, row in tried.items())
            return Moment(revision, album, self._learned, shown, undo)

    def _learn(self, support: Support) -> Learned:
        return learn(self.head, support, self.stamp, self.background)

    def _put(self, album: Album) -> None:
        self._album = album
        self._revision += 1

    def _row(self, number: int) -> PhotoRow:
        row = self._tried.get(number)
        if row is None:
            raise UserError(f"there is no photo {number} here; it may have been removed")
        return row

    def _numbered(self, rows: Sequence[PhotoRow]) -> list[NumberedPhoto]:
        with self._changing:
            return [NumberedPhoto(next(self._numbers), row) for row in rows]
