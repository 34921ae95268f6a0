"""What a study is: a list of numbers, each with its place and where it comes from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fewset.paper.study import Style


@dataclass(frozen=True)
class PlannedRun:
    """A run that a study needs: the recipe of a method at a number of shots, with changes.

    `changes` are as after `--set`, and `tag` tells the run from the unchanged one. A change of the data (or
    of the seed) is made in the pre-training as well. `on` names other recipes than those of the study.
    """

    method: str
    shot: int | None = None
    tag: str = ""
    changes: tuple[str, ...] = ()
    on: str = ""

    @property
    def data_changes(self) -> tuple[str, ...]:
        return tuple(change for change in self.changes if change.startswith(("data.", "seed=")))


@dataclass(frozen=True)
class PlannedNumber:
    """One number: where it stands, and the run, the setting, the tasks and the score that it comes from.

    `score` is "" for the headline, "before" for the one before adaptation, or the name of another.
    """

    row: str
    column: str
    run: PlannedRun
    panel: str = ""
    setting: str = "standard"
    options: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, int] = field(default_factory=dict)
    score: str = ""

    @property
    def place(self) -> tuple[str, str, str]:
        return self.panel, self.row, self.column


@dataclass(frozen=True)
class Plan:
    """What a study shows, and how.

    `column_keys` names the columns of the paper that stand for those of the study, where they differ;
    `pictures` draws what needs more than the numbers, into a directory.
    """

    title: str
    numbers: tuple[PlannedNumber, ...]
    corner: str = ""
    columns_title: str = ""
    style: Style = "table"
    column_keys: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    pictures: Callable[[Path], list[Path]] = lambda _: []
