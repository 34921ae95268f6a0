"""Weights & Biases: files in the run directory for `wandb sync`, or online if `WANDB_MODE` says so."""

import os
from collections.abc import Mapping
from typing import Any

from fewset.core.extras import import_extra
from fewset.experiments.trackers import TrackedRun, register_tracker

_INTERRUPTED = 130  # the exit code of a run that was stopped


@register_tracker("wandb")
class WeightsAndBiases:
    """The recipe as the configuration, rows by step, the score as the summary."""

    def __init__(self) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read by the import
        self._library = import_extra("wandb", "wandb")
        self._run: Any = None

    def start(self, run: TrackedRun) -> None:
        run.folder.mkdir(parents=True, exist_ok=True)
        mode = os.environ.get("WANDB_MODE") or "offline"
        self._run = self._library.init(
            project=os.environ.get("WANDB_PROJECT") or "fewset",
            name=run.name,
            dir=run.folder,
            mode=mode,
            config=dict(run.recipe),
            settings=self._library.Settings(console="off", silent=mode == "offline"),
        )

    def row(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step, commit=True)

    def finish(self, result: Mapping[str, float] | None) -> None:
        self._run.summary.update(result or {})
        self._run.finish(exit_code=_INTERRUPTED if result is None else 0)
