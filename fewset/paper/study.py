"""A study: the numbers of one table or figure of the paper.

A `StudyPlan` says which they are, where each stands and what it comes from. A `Study` holds those that are
made, each with its result; it has a file.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal

from fewset.core.errors import UserError
from fewset.experiments.result import Result, StoredScore, set_adds_to
from fewset.io.files import write_json
from fewset.io.reading import read_record
from fewset.paper.numbers import PaperTable, paper_table
from fewset.report.tables import Estimate
from fewset.tasks.scores import SET_ADDS, Difference

_FORMAT = 2

Style = Literal["table", "lines"]


@dataclass(frozen=True)
class PlannedRun:
    """A run that a study needs: the recipe of a method at a number of shots, with changes.

    `changes` are as after `--set`, and `tag` is part of the name of the changed run. A change of the data (or
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
class StudyPlan:
    """The contents of a study and how they are shown.

    `column_keys` names the columns of the paper that stand for those of the study, where they differ.
    `prepare` makes the data that the runs need. `pictures` draws what needs more than the numbers, into the
    directories of the records and of the pages.
    """

    title: str
    numbers: tuple[PlannedNumber, ...]
    corner: str = ""
    columns_title: str = ""
    style: Style = "table"
    column_keys: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    prepare: Callable[[], object] = lambda: None
    pictures: Callable[[Path, Path | None], list[Path]] = lambda *_: []


@dataclass(frozen=True)
class StudyNumber:
    """A place in a study, and the score (by its name in `Result.score_of`) of the result that stands there.

    `source` says what it was made from (see `StudyRunner.source`).
    """

    panel: str
    row: str
    column: str
    score: str
    source: dict[str, Any]
    result: Result

    @property
    def place(self) -> tuple[str, str, str]:
        return self.panel, self.row, self.column

    @property
    def stored(self) -> StoredScore:
        return self.result.score_of(self.score)


@dataclass(frozen=True)
class Study:
    """The numbers of a table or figure, and the place of each. Numbers may still be missing."""

    name: str  # of the files that are made of it
    title: str
    data: str
    backbone: str
    style: Style
    corner: str  # what the rows are
    columns_title: str  # what the columns are
    panels: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    column_keys: tuple[str, ...]  # what the paper's columns are called
    command: str
    numbers: tuple[StudyNumber, ...]
    notes: tuple[str, ...]
    blank: int = 0  # how many places stay empty, such as what the set adds to a method without an adapter
    format: int = _FORMAT

    def __post_init__(self) -> None:
        _check(self)

    @property
    def missing(self) -> int:
        """How many numbers are not measured yet."""
        return len(self.places()) - self.blank - len(self.numbers)

    def places(self) -> list[tuple[str, str, str]]:
        """The places of all numbers: panel, row and column."""
        return list(product(self.panels, self.rows, self.columns))

    def number(self, panel: str, row: str, column: str) -> StudyNumber | None:
        place = (panel, row, column)
        return next((number for number in self.numbers if number.place == place), None)

    def ours(self, panel: str, row: str, column: str) -> Estimate | None:
        number = self.number(panel, row, column)
        return None if number is None else Estimate(number.stored.mean, number.stored.ci95)

    def set_adds(self, panel: str, row: str, column: str) -> Difference | None:
        """What the set adds to our number; None without a set, or where that has columns of its own."""
        number = self.number(panel, row, column)
        if number is None or any(each.score == SET_ADDS for each in self.numbers):
            return None
        return set_adds_to(number.result, number.score)

    def paper(self, panel: str, row: str, column: str) -> Estimate | None:
        """The paper's number for the same place; marked with a star where the paper cites it."""
        return self.source.numbers.get((panel, row, self.key(column))) if self.source else None

    def key(self, column: str) -> str:
        """The name of the paper's column."""
        return self.column_keys[self.columns.index(column)]

    @property
    def on(self) -> str:
        """The data and backbone of our numbers."""
        return ", ".join(filter(None, (self.data, self.backbone)))

    @property
    def source(self) -> PaperTable | None:
        """The table of the paper."""
        return paper_table(self.name, self.data, self.backbone)

    @property
    def on_the_papers_set(self) -> bool:
        """Whether the paper's numbers are on the same data, with the same backbone."""
        source = self.source
        return source is not None and (source.data, source.backbone) == (self.data, self.backbone)


def write_study(study: Study, path: Path) -> None:
    """Write a study to its file."""
    write_json(path, asdict(study))


def read_study(path: Path) -> Study:
    """Read and check a study file."""
    if not path.exists():
        raise UserError(f"there is no study file {path}; the command of the study writes it")
    remedy = "remove it, and the command of the study writes it again"
    return read_record(Study, path, "study", _FORMAT, lambda what: UserError(f"{path} {what}; {remedy}"))


def _check(study: Study) -> None:
    """Raise an error for scores that are no accuracies, and for names and places that cannot be drawn."""
    for number in study.numbers:
        least = -1 if number.score == SET_ADDS else 0
        if not least <= number.stored.mean <= 1 or (number.stored.ci95 or 0) < 0:
            raise UserError(f"{number.place} is {number.stored.mean}, expected a fraction of {least}..1")
    labels = [*study.panels, *study.rows, *study.columns, *study.column_keys, *study.notes]
    texts = [study.title, study.data, study.backbone, study.corner, study.columns_title, study.command]
    if not all(text.isprintable() for text in (*labels, *texts)):  # they are shown in terminals and pictures
        raise UserError("it has control characters")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", study.name):  # files have this name
        raise UserError(f"its name is {study.name!r}, expected small letters, digits and hyphens")
    if not study.places() or len(study.column_keys) != len(study.columns):
        raise UserError("it has no rows or columns, or other column_keys than columns")
    places = [number.place for number in study.numbers]
    if len(set(places)) < len(places) or not set(places) <= set(study.places()):
        raise UserError("it has numbers at the same place, or outside its rows and columns")
