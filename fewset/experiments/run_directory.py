"""A run directory: its files, and when it may be written to."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from fewset.compute import distributed
from fewset.compute.machine import describe
from fewset.core.errors import UserError
from fewset.io.files import clear_all, write_json, write_text
from fewset.io.locks import alone
from fewset.io.paths import inside
from fewset.io.reading import parsing, read_json, remedy
from fewset.training.checkpoint import CHECKPOINT, LOG, METRICS, TrainingFiles

RECIPE, WEIGHTS, RESULT = "recipe.toml", "model.safetensors", "result.json"
ENVIRONMENT, RESULTS = "environment.json", "results"
TRACKING = "tracking"  # the trackers of experiments write all that is in it
_LOCK = ".lock"

RunState = Literal["new", "unfinished", "finished"]

_WRITTEN = (
    RESULT, "README.md", METRICS, LOG, ENVIRONMENT, WEIGHTS, f"{WEIGHTS}.sha256", "examples.npz",
    "per_task*.npy", f"{CHECKPOINT}", f"{CHECKPOINT}.sha256", f"{RESULTS}/*-seed*.json",
    f"{RESULTS}/*-seed*.np[yz]",
)  # fmt: skip
"""Patterns of all files that a run and its evaluations write, but for its recipe and those of trackers."""


class RunDirectory:
    """The directory of one run. A finished run is never overwritten without `force`."""

    def __init__(self, path: Path) -> None:
        self.path, self.files = path, TrainingFiles(path)

    @property
    def state(self) -> RunState:
        if (self.path / RESULT).exists():
            return "finished"
        return "unfinished" if (self.path / RECIPE).exists() else "new"

    @property
    def made_of(self) -> dict[str, str]:
        """The digests of the data and the weights that the run began with, if they are recorded."""
        file = self.path / ENVIRONMENT
        with remedy("remove it, or start the run again with --force"), parsing(file):
            recorded = dict(read_json(file)) if file.exists() else {}
        return {key: str(recorded[key]) for key in ("data_digest", "init_digest") if key in recorded}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let only one run at a time write into the directory."""
        busy = f"another process is writing the run {self.path} now; wait until it is done, or choose another"
        new = [place for place in (self.path, *self.path.parents) if not place.exists()]
        try:
            with alone(self.path / _LOCK, busy, distributed.on_main_process):
                yield
        finally:
            with suppress(OSError):  # a directory that is no longer empty stays
                for place in new:
                    place.rmdir()

    def begin(self, recipe: str, resume: bool, force: bool, **environment: object) -> None:
        """Prepare the directory for a run, or raise an error with the remedy.

        With `force` all files that a run and its evaluations have written are removed, and no others.
        `environment` is recorded with the description of the machine.
        """
        clear_all(*(inside(self.path, part) for part in ("", CHECKPOINT.parent, RESULTS, TRACKING)))
        if self.state == "new":
            if self.path.exists() and any(file.name != _LOCK for file in self.path.iterdir()):
                raise UserError(
                    f"{self.path} is not empty and not a run; choose another directory with --out"
                )
        elif force:
            self._clear()
        elif not resume:
            go_on = "" if self.state == "finished" else "--resume goes on, "
            raise UserError(
                f"{self.path} holds a run that is {self.state}: {go_on}--force starts again, "
                "--out names another directory"
            )
        if force or self.state == "new":
            write_text(self.path / RECIPE, recipe)
        write_json(self.path / ENVIRONMENT, {**describe(), **environment})

    def _clear(self) -> None:
        """Remove the files of a run, the result first: then the run is unfinished. Its recipe stays."""
        for pattern in _WRITTEN:
            for file in self.path.glob(pattern):
                file.unlink()
        shutil.rmtree(self.path / TRACKING, ignore_errors=True)
        for folder in (CHECKPOINT.parent, RESULTS):
            with suppress(OSError):  # it is not there, or has files of the user
                (self.path / folder).rmdir()
