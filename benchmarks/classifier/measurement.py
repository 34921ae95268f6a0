"""What is measured on a set: every head on tasks of several sizes, and how far to trust the default one.

A plan (TOML) lists the sets. It names no path but that of each source, from a folder that is given with it.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.classifier.accuracy import MOST_QUERIES, head_accuracy, task_spec
from benchmarks.classifier.embedded import EmbeddedSet, SetSource, embedded_set, related
from benchmarks.classifier.trust_figures import trust_figures
from fewset.classify.heads import CLASSIFIER_HEADS, DEFAULT, find_classifier_head
from fewset.core.names import plain_name
from fewset.core.parsing import parse
from fewset.encoders import Encoder
from fewset.experiments.result import command_line, stored_width
from fewset.experiments.run_encoder import load_encoder
from fewset.io.files import write_json
from fewset.io.reading import parse_toml, read_json, read_text
from fewset.tasks.scores import Difference, Score, compare
from fewset.tasks.spec import TaskSpec

FORMAT = 1
REFERENCES = ("ridge", "logistic")
"""The heads of which the better one is what others are compared with."""
TRUST_TASKS = 1_000
TRUST_QUERIES = 100
"""Of each class at most, when the interval of leave-one-out is held against the accuracy on new photos."""
NEAREST = 8
"""Of a class, from which the others of a task of related classes are drawn."""
_MOST_WAYS = 100
_TASKS = {5: 10_000, 20: 1_000}
_TASKS_OF_MANY_WAYS = 100


@dataclass(frozen=True)
class PlannedSet:
    """A set of a plan.

    `query` is how many queries a class has at most; without it, 15 for the accuracy and 100 for the trust
    figures, which `trust_query` sets alone.

    `related_by` names the encoder by which classes are related, for tasks of 5 related classes: a class and 4
    of its 8 nearest. With `grouped`, classes whose names end with the same word are nearer than all others.
    """

    name: str
    title: str
    kind: str
    source: str
    split: str | None = None
    domain: str | None = None
    query: int | None = None
    trust_query: int | None = None
    related_by: str | None = None
    grouped: bool = False
    notes: tuple[str, ...] = ()

    @property
    def images(self) -> tuple[str | int | None, ...]:
        """What decides on the images and the tasks."""
        return (
            *(self.kind, self.source, self.split, self.domain, self.query, self.trust_query),
            *(self.related_by, self.grouped),
        )


@dataclass(frozen=True)
class Plan:
    sets: tuple[PlannedSet, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A mean over tasks and half its 95 % interval, which what is taken over all tasks at once has not."""

    mean: float
    ci95: float | None = None


@dataclass(frozen=True)
class Cell:
    """The accuracy of the heads on tasks of one size, and how far each is ahead of the better reference."""

    way: int
    shot: int
    query: int
    tasks: int
    reference: str
    accuracy: dict[str, Figure]
    ahead: dict[str, Figure]
    related: int = 0

    @property
    def name(self) -> str:
        return f"{self.way}-way {self.shot}-shot" + (", related" if self.related else "")


@dataclass(frozen=True)
class TrustCell:
    """The figures of `TrustFigures` for the default head."""

    head: str
    way: int
    shot: int
    query: int
    tasks: int
    figures: dict[str, Figure]


@dataclass(frozen=True)
class Measurement:
    """Everything that was measured on a set, and what made it."""

    planned: PlannedSet
    images: int
    classes: int
    images_digest: str
    encoder: str
    encoder_digest: str
    default: str
    seed: int
    cells: tuple[Cell, ...]
    trust: TrustCell
    command: str
    commit: str
    versions: dict[str, Any]
    seconds: float
    format: int = FORMAT


def read_plan(file: Path) -> Plan:
    """The plan of a file; every key is checked."""
    plan = parse(Plan, parse_toml(read_text(file)), what="plan")
    for planned in plan.sets:
        plain_name(planned.name, "the set")
    return plan


def measure_set(
    planned: PlannedSet,
    folder: Path,
    encoder: Encoder,
    environment: Mapping[str, str | int],
    seed: int = 0,
    tasks: int | None = None,
    echo: Callable[[str], None] = lambda _: None,
) -> Measurement:
    """Embed a set, unless that was done before, and measure every head on it.

    :param environment: as `describe` has it before the first result is written, which changes the tree.
    :param tasks: of each cell and of the trust figures at most; by default 10,000 at 5 ways, 1,000 at 20,
        100 at more, and 1,000 for the trust figures.
    """
    begin = time.monotonic()
    where = SetSource(planned.kind, folder / planned.source, planned.split, planned.domain)
    items = embedded_set(where, encoder)
    sizes = [(way, shot, 0) for way, shot in _sizes(len(items.class_names))]
    if planned.related_by is not None:
        items = related(items, where, load_encoder(planned.related_by), planned.grouped)
        sizes += [(5, 1, NEAREST), (5, 5, NEAREST)]
    cells = []
    for way, shot, nearest in sizes:
        count = _TASKS.get(way, _TASKS_OF_MANY_WAYS)
        most = planned.query or MOST_QUERIES
        spec = task_spec(items, way, shot, min(count, tasks or count), seed, most, nearest)
        cells.append(measure_cell(items, spec))
        echo(f"{planned.name}: {cells[-1].name}, {time.monotonic() - begin:.0f} s")
    most = planned.trust_query or planned.query or TRUST_QUERIES
    spec = task_spec(items, 5, 5, min(TRUST_TASKS, tasks or TRUST_TASKS), seed, most)
    trust = _trust(items, spec)
    return Measurement(
        planned,
        len(items.labels),
        len(items.class_names),
        items.images_digest,
        encoder.id,
        encoder.digest,
        DEFAULT,
        seed,
        tuple(cells),
        trust,
        command_line(),
        str(environment["commit"]),
        {name: value for name, value in environment.items() if name != "commit"},
        round(time.monotonic() - begin, 1),
    )


def measure_cell(items: EmbeddedSet, spec: TaskSpec, heads: tuple[str, ...] = ()) -> Cell:
    """Every registered head on the same tasks; or the `heads`, which are then to include the references."""
    scores = {
        name: Score.of(head_accuracy(find_classifier_head(name), items, spec))
        for name in heads or sorted(CLASSIFIER_HEADS)
    }
    reference = max(REFERENCES, key=lambda name: scores[name].mean)
    return Cell(
        spec.way,
        spec.shot,
        spec.query,
        spec.tasks,
        reference,
        {name: _figure(score) for name, score in scores.items()},
        {name: _figure(compare(score, scores[reference])) for name, score in scores.items()},
        spec.related,
    )


def write_measurement(measured: Measurement, file: Path) -> None:
    write_json(file, asdict(measured))


def read_measurement(file: Path) -> Measurement:
    """The measurement in a file, every field checked."""
    return parse(Measurement, read_json(file), what="measurement")


def _sizes(classes: int) -> list[tuple[int, int]]:
    """Ways and shots: 5 ways, 20 ways at 5 shots, and all classes, of which at most 100."""
    many = min(classes, _MOST_WAYS)
    sizes = [(5, 1), (5, 5), (20, 5), (many, 1), (many, 5)]
    return [size for size in dict.fromkeys(sizes) if size[0] <= classes]


def _trust(items: EmbeddedSet, spec: TaskSpec) -> TrustCell:
    found = trust_figures(DEFAULT, items, spec)
    figures = {name: _figure(value) for name, value in vars(found).items()}
    return TrustCell(DEFAULT, spec.way, spec.shot, spec.query, spec.tasks, figures)


def _figure(value: Score | Difference | float) -> Figure:
    if isinstance(value, Score | Difference):
        return Figure(value.mean, stored_width(value.ci95))
    return Figure(float(np.float64(value)))
