"""Work on the page is saved to a file as one goes, so that a closed terminal or a crash loses little."""

import time
from datetime import datetime
from pathlib import Path
from threading import Event, Thread
from types import TracebackType

from fewset.classify.saving import save_classifier
from fewset.classify.serve.workbench import Moment, Workbench
from fewset.core.errors import UserError
from fewset.data.manifest import home

SECONDS = 5.0
"""Between two looks whether something has changed."""


def work_file(opened: Path | None = None) -> Path:
    """Where the work of a new server is saved: a new file, or the one of earlier work that was opened."""
    folder = home() / "serve"
    if opened is not None and opened.resolve().parent == folder.resolve():
        return opened
    return folder / f"work-{datetime.now():%Y%m%d-%H%M%S-%f}.fewset"


def earlier_work(but: Path) -> list[tuple[Path, str]]:
    """The files of earlier work, the latest first, each with its age."""
    files = [file for file in (home() / "serve").glob("work-*.fewset") if file.name != but.name]
    times = {file: file.stat().st_mtime for file in files}
    return [(file, _age(time.time() - times[file])) for file in sorted(files, key=times.get, reverse=True)]  # type: ignore[arg-type]


def _age(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{int(seconds / length)} {unit}"
    return f"{int(seconds)} seconds"


class Autosave:
    """While it is open, saves the classes and photos of a workbench soon after they change, and at the end.

    A classifier needs two classes with photos; before that there is nothing to save.
    """

    def __init__(self, bench: Workbench, path: Path) -> None:
        self.bench, self.path = bench, path
        self._saved = bench.moment().album
        self._done = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def save(self, moment: Moment) -> None:
        """Write the file, unless nothing has changed since it was written."""
        if moment.album is self._saved or moment.learned is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        save_classifier(moment.learned, moment.album.share, self.path)
        self._saved = moment.album

    def _watch(self) -> None:
        while not self._done.wait(SECONDS):
            try:
                self.save(self.bench.soon(patience=0))  # a large set is saved once it is learned
            except (OSError, UserError):
                continue  # a full disk may have room again; the last try, at the end, says what is wrong

    def __enter__(self) -> "Autosave":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        self.save(self.bench.moment())
