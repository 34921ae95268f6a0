"""What `fewset suggest` is worth: accuracy by the number of labels, against photos chosen at random.

A task begins with one labelled photo of each class and a pool of unlabelled ones. In each round a strategy
chooses ten of the pool, they get their labels, and the classifier is fitted again and scored on other photos.
All strategies have the same tasks.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from benchmarks.classifier.embedded import EmbeddedSet, SetSource, embedded_set
from fewset.classify.heads import DEFAULT
from fewset.classify.model import Learned, learn
from fewset.classify.photos.rows import PhotoRow
from fewset.classify.photos.support import support_of_rows
from fewset.classify.suggest.choice import next_to_label, uncertainty
from fewset.classify.suggest.suggestions import read_unlabelled, suggestions
from fewset.compute.machine import describe
from fewset.encoders import Encoder
from fewset.experiments.result import command_line
from fewset.report.figures import COLOURS, FAINT, WIDTH, style
from fewset.tasks.scores import Difference, Score, compare

ROUND = 10
ROUNDS = 8
WAY = 10
MOST_QUERIES = 20
SHOWN = (20, 40, 80)
"""Labels after 2, 4 and 8 rounds."""


class TestSet(NamedTuple):
    """A set whose classes took no part in any choice."""

    title: str
    source: SetSource
    first_class: int = 0
    """Earlier classes, in the order of their names, served the choice of the method."""
    skews: tuple[bool, ...] = (False,)
    """Whether the classes of the pool are skewed; a set with few photos a class has none to spare."""


def test_sets(data: Path) -> dict[str, TestSet]:
    sketchy = [SetSource("domains", data / "sketchy.zip", domain=domain) for domain in ("Photo", "Sketch")]
    mini = SetSource("miniimagenet", data / "miniimagenet.zip", split="test", most=100)
    cub = SetSource("cub", data / "cub.zip", split="test")
    return {
        "sketchy-photos": TestSet("Sketchy, photos", sketchy[0], 80),
        "sketchy-sketches": TestSet("Sketchy, sketches", sketchy[1], 80),
        "miniimagenet-test": TestSet("miniImageNet", mini, skews=(False, True)),
        "cub-test": TestSet("CUB", cub, skews=(False, True)),
    }


@dataclass(frozen=True, eq=False)
class Pool:
    """A task: rows of a set, and the class of each within the task."""

    labelled: Int[np.ndarray, " s"]
    unlabelled: Int[np.ndarray, " n"]
    queries: Int[np.ndarray, " q"]
    classes: Mapping[int, int]
    """The class within the task of each label of the set."""


def drawn_pool(items: EmbeddedSet, first_class: int, skewed: bool, seed: int, number: int) -> Pool:
    """Task `number`: one labelled photo a class, half of its others in the pool, up to 20 queries.

    `skewed`, the pool has ever fewer photos of the classes, from all to a tenth. No query has the origin of
    a photo to learn from.
    """
    generator = np.random.default_rng([seed, number])
    parts: list[list[np.ndarray]] = [[], [], []]
    classes = generator.choice(np.arange(first_class, len(items.class_names)), WAY, replace=False)
    for place, label in enumerate(classes):
        rows = _by_origin(items, generator.permutation(np.flatnonzero(items.labels == label)))
        half = 1 + len(rows) // 2
        learned, others = rows[:half], rows[half:]
        if items.origins is not None:
            others = others[~np.isin(items.origins[others], items.origins[learned])]
        kept = round((half - 1) * 0.1 ** (place / (WAY - 1))) if skewed else half - 1
        for part, those in zip(
            parts, (learned[:1], learned[1 : 1 + kept], others[:MOST_QUERIES]), strict=True
        ):
            part.append(those)
    labelled, unlabelled, queries = map(np.concatenate, parts)
    return Pool(labelled, unlabelled, queries, {int(label): place for place, label in enumerate(classes)})


def _by_origin(items: EmbeddedSet, rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Those of one origin together, in the order in which the origins first come."""
    if items.origins is None:
        return rows
    origins = items.origins[rows]
    _, first, place = np.unique(origins, return_index=True, return_inverse=True)
    return rows[np.argsort(first[place], kind="stable")]


Strategy = Callable[[Learned, np.ndarray, np.random.Generator], np.ndarray]
"""From a classifier and the rows of the pool to the indices of the next ten."""


def _random(learned: Learned, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:  # noqa: ARG001
    return generator.permutation(len(rows))[:ROUND]


def _unsure(learned: Learned, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:  # noqa: ARG001
    return np.argsort(-uncertainty(learned.probabilities(rows)), kind="stable")[:ROUND]


def _typical(learned: Learned, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """As `_suggest`, by a classifier that is equally unsure about all photos."""
    blank = replace(learned.linear, weight=0 * learned.linear.weight, bias=0 * learned.linear.bias)
    return _suggest(replace(learned, linear=blank), rows, generator)


def _suggest(learned: Learned, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:  # noqa: ARG001
    return next_to_label(learned, rows, ROUND)


STRATEGIES: dict[str, Strategy] = {
    "random": _random,
    "unsure": _unsure,
    "typical": _typical,
    "suggest": _suggest,
}


def learning_curve(
    strategy: Strategy, items: EmbeddedSet, pool: Pool, generator: np.random.Generator
) -> Float[np.ndarray, " rounds"]:
    """The accuracy on the queries, as the mean of the classes, before the first and after every round."""
    labels = np.array([pool.classes.get(int(label), -1) for label in items.labels])
    known, left, accuracy = pool.labelled, pool.unlabelled, np.empty(ROUNDS + 1)
    for turn in range(ROUNDS + 1):
        learned = learn(DEFAULT, support_of_rows(items.features[known], labels[known]), None)
        right = learned.probabilities(items.features[pool.queries]).argmax(axis=1) == labels[pool.queries]
        accuracy[turn] = np.mean([right[labels[pool.queries] == label].mean() for label in range(WAY)])
        chosen = strategy(learned, items.features[left], generator)
        known, left = np.concatenate([known, left[chosen]]), np.delete(left, chosen)
    return accuracy


def measure_suggest(
    data: Path, encoder: Encoder, tasks: int, seed: int, tell: Callable[[str], None]
) -> dict[str, Any]:
    """The curves of all strategies on all sets, with the paired differences; as the record has it."""
    begin = time.monotonic()
    cells: list[dict[str, Any]] = []
    sets = {}
    for name, test in test_sets(data).items():
        items = embedded_set(test.source, encoder)
        sets[name] = {"images_digest": items.images_digest, "first_class": test.first_class}
        for skewed in test.skews:
            pools = [drawn_pool(items, test.first_class, skewed, seed, number) for number in range(tasks)]
            curves = {each: _curves(choose, items, pools, seed) for each, choose in STRATEGIES.items()}
            found = {
                "set": name,
                "title": test.title,
                "skewed": skewed,
                "pool": float(np.mean([len(pool.unlabelled) for pool in pools])),
                **_compared(curves),
                "new_classes": new_classes(items, pools),
            }
            cells.append(found)
            tell(f"{pool_name(found)}: ahead of random by {found['ahead']['random']}")
    versions = describe()
    return {
        "encoder": encoder.id,
        "encoder_digest": encoder.digest,
        "head": DEFAULT,
        "way": WAY,
        "round": ROUND,
        "tasks": tasks,
        "seed": seed,
        "sets": sets,
        "cells": cells,
        "command": command_line(),
        "commit": str(versions.pop("commit")),
        "versions": versions,
        "seconds": round(time.monotonic() - begin, 1),
    }


def _curves(
    strategy: Strategy, items: EmbeddedSet, pools: Sequence[Pool], seed: int
) -> Float[np.ndarray, "tasks rounds"]:
    generators = (np.random.default_rng([seed, number, 1]) for number in range(len(pools)))
    return np.stack([learning_curve(strategy, items, *each) for each in zip(pools, generators, strict=True)])


def _compared(curves: Mapping[str, Float[np.ndarray, "tasks rounds"]]) -> dict[str, Any]:
    scores = {name: [Score.of(column) for column in curve.T] for name, curve in curves.items()}
    ours = scores["suggest"]
    return {
        "accuracy": {name: [_rounded(each) for each in curve] for name, curve in scores.items()},
        "ahead": {
            name: [_rounded(compare(one, other)) for one, other in zip(ours, curve, strict=True)]
            for name, curve in scores.items()
            if name != "suggest"
        },
        "ahead_of_random_with_twice_the_labels": {
            str(turn * ROUND): _rounded(compare(ours[turn], scores["random"][2 * turn]))
            for turn in range(1, ROUNDS // 2 + 1)
        },
    }


def new_classes(
    items: EmbeddedSet, pools: Sequence[Pool], shots: int = 5, known: int = 7, count: int = 20
) -> dict[str, Any]:
    """Suggestions where 3 of the 10 classes have no labelled photo: how many are of these classes.

    The shares are those of the pool, of the suggestions, and of the suggestions that are marked as perhaps of
    a new class; `classes_found` is the share of the new classes that a suggestion is of.
    """
    shares = np.empty((len(pools), 4))
    for number, pool in enumerate(pools):
        truth = np.array([pool.classes[int(label)] for label in items.labels[pool.unlabelled]])
        shown = np.concatenate([np.flatnonzero(truth == label)[: shots - 1] for label in range(known)])
        given = np.concatenate([pool.labelled[:known], pool.unlabelled[shown]])
        labels = np.concatenate([np.arange(known), truth[shown]])
        learned = learn(DEFAULT, support_of_rows(items.features[given], labels), None)
        rest, truth = np.delete(pool.unlabelled, shown), np.delete(truth, shown)
        rows = (PhotoRow("", row) for row in items.features[rest])
        chosen = suggestions(learned, read_unlabelled(rows), count)
        classes = truth[[each.index for each in chosen]]
        marked = classes[[each.new_class for each in chosen]]
        found = len(set(classes[classes >= known].tolist())) / (WAY - known)
        parts = [(part >= known).mean() if len(part) else np.nan for part in (truth, classes, marked)]
        shares[number] = *parts, found
    names = ("of_the_pool", "of_the_suggestions", "of_those_marked", "classes_found")
    columns = dict(zip(names, shares.T, strict=True))
    return {name: _rounded(Score.of(column[~np.isnan(column)])) for name, column in columns.items()}


def _rounded(figure: Score | Difference) -> list[float]:
    """In percent or points, with half the width of the interval."""
    return [round(100 * figure.mean, 2), round(100 * figure.ci95, 2)]


def labels_table(record: Mapping[str, Any]) -> str:
    """The accuracies after 2, 4 and 8 rounds, in Markdown."""
    heads = [
        "Pool of ten classes",
        *(part for labels in SHOWN for part in (f"Random, {labels} labels", "suggest")),
    ]
    lines = [heads, ["---", *["---:"] * (2 * len(SHOWN))]]
    for cell in record["cells"]:
        cells = [pool_name(cell)]
        for labels in SHOWN:
            turn = labels // record["round"]
            (chance, _), (ahead, half) = cell["accuracy"]["random"][turn], cell["ahead"]["random"][turn]
            cells += [f"{chance:.1f}", f"{ahead:+.1f} ± {half:.1f}"]
        lines.append(cells)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def pool_name(cell: Mapping[str, Any]) -> str:
    return f"{cell['title']}{', skewed' if cell['skewed'] else ''}"


def curves_figure(record: Mapping[str, Any]) -> Figure:
    """Accuracy by the number of labels, a panel for each pool."""
    cells = record["cells"]
    labels = np.arange(ROUNDS + 1) * record["round"]
    with style():
        figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
        panels = figure.subplots(2, (len(cells) + 1) // 2, sharex=True).flatten()
        for panel, cell in zip(panels, cells, strict=False):
            for (name, curve), colour, line in zip(
                cell["accuracy"].items(),
                (FAINT, COLOURS[4], COLOURS[2], COLOURS[0]),
                ("-", ":", "--", "o-"),
                strict=True,
            ):
                means = [mean for mean, _ in curve]
                panel.plot(labels, means, line, color=colour, label=name, markersize=3)
            panel.set_title(pool_name(cell))
            panel.grid(visible=True)
        for panel in panels[len(cells) :]:
            panel.remove()
        figure.supxlabel("labels beyond the first of each class")
        figure.supylabel("accuracy in percent")
        panels[0].legend(loc="lower right")
    return figure
