"""Experiment trackers, which `--log-to` names. One file each; a plugin can bring another.

A tracker is a class without arguments that is registered by name (`@register_tracker("name")`) and has the
three methods of `Tracker`. It imports its library when it is made, so that a missing one is told before the
training. Nothing leaves the machine unless the user's own settings of the tracker say so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fewset.core.registry import Registry


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker is told of a run that begins or goes on."""

    name: str
    recipe: Mapping[str, bool | int | float | str]
    """By the keys of `--set`: `train.epochs`, ..."""
    folder: Path
    """In the run directory, for the tracker's own files."""
    id: str | None = None
    """What `start` returned when the run began; None if it begins now."""
    step: int = 0
    """The last one that `row` was given, before the run was stopped."""


class Tracker(Protocol):
    """Follows one run. Only the main process has one."""

    def start(self, run: TrackedRun) -> str:
        """Begin, or go on where there is an `id`; returns the id of the run in the tracker."""

    def row(self, step: int, values: Mapping[str, float]) -> None:
        """A row of `metrics.jsonl`, once an epoch. What was given must survive the end of the process.

        If the process is killed just then, the row comes again when the run goes on.
        """

    def finish(self, result: Mapping[str, float] | None) -> None:
        """The end, with the score of the run; None if it was stopped and may go on later."""


TRACKERS: Registry[type[Tracker]] = Registry("tracker", __name__)
register_tracker = TRACKERS.register
