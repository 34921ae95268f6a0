"""A run directory: what it holds, when it may be written to, and the checkpoint inside it."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from fewset.compute import distributed
from fewset.compute.machine import describe
from fewset.core.errors import UserError
from fewset.io.files import clear_all, write_json, write_text
from fewset.io.locks import alone
from fewset.io.paths import inside, partial_of
from fewset.io.reading import read_json
from fewset.training.checkpoint import CHECKPOINT, LOG, METRICS, TrainingFiles

RECIPE, WEIGHTS, RESULT = "recipe.toml", "model.safetensors", "result.json"
ENVIRONMENT, RESULTS = "environment.json", "results"
TRACKING = "tracking"  # all in it is written by the trackers of experiments
_LOCK = ".lock"

RunState = Literal["new", "unfinished", "finished"]

_ARRAYS = r"examples\.npz|per_task(_.+)?\.npy"  # beside a result
_DIGEST = r"(\.sha256)?"
_CHECKED_WEIGHTS = re.escape(WEIGHTS) + _DIGEST
_WRITTEN = {  # the names of the files that a run and its evaluations write, by the folder they are in
    Path(): "|".join((*map(re.escape, (RESULT, METRICS, LOG, ENVIRONMENT)), _CHECKED_WEIGHTS, _ARRAYS)),
    Path(RESULTS): rf".+-seed\d+\.(json|{_ARRAYS})",
    CHECKPOINT.parent: re.escape(CHECKPOINT.name) + _DIGEST,
}


class RunDirectory(TrainingFiles):
    """The directory of one run. A finished run is never overwritten unless asked to."""

    @property
    def state(self) -> RunState:
        if (self.path / RESULT).exists():
            return "finished"
        return "unfinished" if (self.path / RECIPE).exists() else "new"

    @property
    def made_of(self) -> dict[str, str]:
        """The digests of what the run was trained on and started from, as far as they are known."""
        known, digests = self._environment(), ("data_digest", "init_digest")
        return {key: str(known[key]) for key in digests if key in known}

    def _environment(self) -> dict[str, Any]:
        file = self.path / ENVIRONMENT
        try:
            known = read_json(file) if file.exists() else {}
        except (OSError, ValueError) as error:
            raise self._unknown_beginning(str(error)) from None
        if not isinstance(known, dict):
            raise self._unknown_beginning("it is not a table")
        return known

    def _unknown_beginning(self, problem: str) -> UserError:
        return UserError(
            f"{self.path / ENVIRONMENT} cannot be read ({problem}), so nobody knows what the run began with; "
            "remove it, or start anew with --force"
        )

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One run at a time writes into the directory: a second one is refused."""
        told = f"another process is writing the run {self.path} now; wait until it is done, or choose another"
        new = [place for place in (self.path, *self.path.parents) if not place.exists()]
        try:
            with alone(self.path / _LOCK, told, distributed.on_main_process):
                yield
        finally:
            with suppress(OSError):  # one is not empty: something came of it
                for place in new:
                    place.rmdir()

    def begin(self, recipe: str, resume: bool, force: bool, **environment: object) -> None:
        """Make the directory ready to be written to, or refuse with the remedy.

        Starting anew removes all files that a run and its evaluations have written, and no others.
        `environment` is what there is to say of it besides the machine.
        """
        clear_all(*(inside(self.path, folder) for folder in (*_WRITTEN, Path(TRACKING))))
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
                f"{self.path} holds a run that is {self.state}: {go_on}--force starts anew, "
                "--out names another directory"
            )
        if force or self.state == "new":
            write_text(self.path / RECIPE, recipe)
        write_json(self.path / ENVIRONMENT, {**describe(), **environment})

    def _clear(self) -> None:
        """Remove what a run has written but its recipe: without one this would not be a run any more."""
        (self.path / RESULT).unlink(missing_ok=True)  # first: from now on the run is unfinished
        shutil.rmtree(self.path / TRACKING, ignore_errors=True)
        for folder, names in _WRITTEN.items():
            directory = self.path / folder
            for file in directory.glob("*"):
                if re.fullmatch(names, partial_of(file) or file.name):
                    file.unlink()
            if folder.name and directory.is_dir() and not any(directory.iterdir()):
                directory.rmdir()
