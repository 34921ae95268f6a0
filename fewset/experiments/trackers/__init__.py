"""Experiment trackers, which `--log-to` names. One file each; a plugin can bring another.

A tracker is a class without arguments that is registered by name (`@register_tracker("name")`) and has the
three methods of `Tracker`. It imports its library in `__init__`, so that a missing one is reported before the
training. Nothing is sent anywhere unless the user's own settings of the tracker say so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fewset.core.registry import Registry


@dataclass(frozen=True)
class TrackedRun:
    """A run, as a tracker gets it at the start."""

    name: str
    recipe: Mapping[str, bool | int | float | str]
    """By the keys of `--set`: `train.epochs`, ..."""
    folder: Path
    """In the run directory, for the tracker's own files."""


class Tracker(Protocol):
    """Follows one run. Only the main process has one."""

    def start(self, run: TrackedRun) -> None:
        """Begin a run. One that is resumed begins again, and its earlier rows follow."""

    def row(self, step: int, values: Mapping[str, float]) -> None:
        """A row of `metrics.jsonl`, once an epoch."""

    def finish(self, result: Mapping[str, float] | None) -> None:
        """The end, with the score of the run; None if it was stopped."""


TRACKERS: Registry[type[Tracker]] = Registry("tracker", __name__)
register_tracker = TRACKERS.register
