"""The project file: it is saved as the work changes, and earlier ones are opened."""

import time
import warnings
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Thread

from fewset.classify.saving import classes_and_photos, load_classifier
from fewset.classify.serve.workbench import Moment, Workbench
from fewset.core.errors import UserError
from fewset.data.manifest import home
from fewset.encoders import Encoder

SAVE_SECONDS = 2.0
"""Between two checks whether the work has changed."""
MOST_LISTED = 50


def work_file(opened: Path | None = None) -> Path:
    """Where the work of a new server is saved: a new file, or the one of earlier work that was opened."""
    folder = home() / "serve"
    if opened is not None and opened.resolve().parent == folder.resolve():
        return opened
    return folder / f"work-{datetime.now():%Y%m%d-%H%M%S-%f}.fewset"


def earlier_work(but: Path) -> list[tuple[Path, str]]:
    """The files of earlier work, the latest first, each with the time at which it was saved."""
    files = [file for file in (home() / "serve").glob("work-*.fewset") if file.name != but.name]
    times = sorted(((file.stat().st_mtime, file) for file in files), reverse=True)
    return [(file, f"{datetime.fromtimestamp(saved):%Y-%m-%d %H:%M}") for saved, file in times]


class Project:
    """The work of a workbench as a file. While it is entered, the file is saved soon after each change.

    A classifier needs two classes with photos; before that there is nothing to save.
    """

    def __init__(self, bench: Workbench, path: Path) -> None:
        self.bench, self.path = bench, path
        self.saved_at: float | None = None
        """When the file was last written, in seconds since 1970."""
        self.problem = ""
        """Why the file could not be written the last time."""
        self._saved = bench.moment().album
        self._one_at_a_time = Lock()
        self._done = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    @property
    def unsaved(self) -> bool:
        """Whether there are changes that are not in the file."""
        return self.bench.moment(patience=0).album is not self._saved

    def save(self, patience: float | None = None) -> None:
        """Write the file, unless nothing has changed or the classifier has not learned yet."""
        with self._one_at_a_time:
            self._save(self.bench.moment(patience))

    def _save(self, moment: Moment) -> None:
        if moment.album is self._saved or moment.learned is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        moment.save(self.path)
        self._saved, self.saved_at, self.problem = moment.album, time.time(), ""

    def earlier(self) -> Iterator[tuple[Path, str, tuple[str, ...], int]]:
        """Earlier work, the latest first: the file, when it was saved, its classes, the number of photos."""
        for path, when in earlier_work(self.path)[:MOST_LISTED]:
            found = classes_and_photos(path)
            if found is not None:
                yield path, when, *found

    def open_earlier(self, name: str, encoder: Encoder) -> None:
        """Continue with earlier work, in its own file."""
        path = next((file for file, _ in earlier_work(self.path) if file.name == name), None)
        if path is None:
            raise UserError(f"there is no earlier work {name[:100]!r}; it may have been deleted")
        self._replace(path, path, encoder)

    def open_copy(self, content: bytes, encoder: Encoder) -> None:
        """Continue with the content of a .fewset file, in a new file."""
        with TemporaryDirectory(prefix="fewset-") as folder:
            path = Path(folder, "my.fewset")
            path.write_bytes(content)
            try:
                self._replace(path, work_file(), encoder)
            except UserError as error:
                raise UserError(str(error).replace(str(path), "the file")) from None

    def _replace(self, source: Path, path: Path, encoder: Encoder) -> None:
        learned, share = load_classifier(source)
        learned.check_encoder(encoder)
        with self._one_at_a_time:
            before = self.bench.moment()
            try:
                self._save(before)
            except OSError as error:
                raise UserError(f"the photos here cannot be saved: {error}") from None
            if before.album is not self._saved and before.album.photos:
                raise UserError(
                    "the photos here are not saved, which takes two classes with photos; add a class, or "
                    "delete the photos first"
                )
            self.bench.open(learned, share)
            self.path, self.saved_at = path, None
            self._saved = before.album if path != source else self.bench.moment().album

    def _watch(self) -> None:
        while not self._done.wait(SAVE_SECONDS):
            try:
                self.save(patience=0)  # a large set is saved when it is learned
            except Exception as error:  # a full disk may have room again
                if str(error) != self.problem:
                    warnings.warn(f"the work is not saved: {error}", stacklevel=2)
                self.problem = str(error)

    def __enter__(self) -> "Project":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.save()
