"""Whether the interval of a classifier holds: at few shots, on new occasions, and in any order of the photos.

Tables of features stand for the photos: `.npz` files with `features`, `labels` and `names`, as `fewset.embed`
gives them. Occasions are found from the names: sketches of one photo are named after it.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int
from scipy.special import softmax

from fewset.classify.model import Learned, learn
from fewset.classify.photos.support import Support, support_of_rows
from fewset.classify.scoring import expected_calibration_error
from fewset.compute.machine import describe
from fewset.experiments.result import command_line
from fewset.tasks.scores import Score

WAY = 5
QUERIES = 50  # of a class at most
SHUFFLED_SETS, SHUFFLES = 20, 10
# The constants were chosen on the validation classes and on the classes of Sketchy at even places.
SETS = {
    "miniimagenet-test": ("mini-test", slice(None)),
    "cub-test": ("cub-test", slice(None)),
    "sketchy-photos": ("sketchy-Photo", slice(1, None, 2)),
    "sketchy-sketches": ("sketchy-Sketch", slice(1, None, 2)),
}
SIZES = [(shot, 0) for shot in (1, 2, 3, 5, 10)]
SKETCHED = [(shot, occasions) for occasions in (1, 2, 3) for shot in (3, 5)]
"""Shots, and the photos of a class that they were sketched from; the queries are of other photos."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A table of features; `origins` numbers what each image was made from."""

    features: Float32[np.ndarray, "n D"]
    labels: Int[np.ndarray, " n"]
    names: np.ndarray
    origins: Int[np.ndarray, " n"]
    digest: str


@dataclass(frozen=True)
class CoverageCell:
    """Tasks of one kind. Shares are of tasks, but for `accuracy`, `calibration_error` and `too_sure`."""

    data: str
    way: int
    shot: int
    occasions: int
    """Of a class, where the new photos are of others; 0 where they are not known."""
    tasks: int
    accuracy: float
    left_out: float | None
    """The accuracy of the left-out photos."""
    covered: float | None
    covered_ci95: float | None
    below: float | None
    """The accuracy is lower than the interval says."""
    width: float | None
    less_certain: float
    """The classifier says that it is less certain on a new occasion."""
    calibration_error: float
    too_sure: float
    """The mean probability of the answers less the share that is right."""
    untempered_error: float
    """The calibration error with the temperature 1."""


def measure_trust(folder: Path, tasks: int, seed: int, echo: Callable[[str], None]) -> dict[str, Any]:
    """The record of all sets."""
    environment = describe()
    cells, digests = [], {}
    for name, (file, classes) in SETS.items():
        rows = read_rows(folder / f"{file}.npz", classes)
        digests[name] = rows.digest
        for shot, occasions in SKETCHED if "sketches" in name else SIZES:
            cells.append(_cell(name, rows, shot, occasions, tasks, seed))
            echo(f"{cells[-1]}")
    rows = read_rows(folder / f"{SETS['cub-test'][0]}.npz", slice(None))
    return {
        "command": command_line(),
        "seed": seed,
        "features_sha256": digests,
        "cells": [asdict(cell) for cell in cells],
        "shuffles": _shuffled(rows, seed),
        **environment,
    }


def read_rows(file: Path, classes: slice) -> Rows:
    """The rows of some classes of a file."""
    with np.load(file) as table:
        names, features = table["names"], table["features"]
        given, labels = np.unique(table["labels"], return_inverse=True)
    chosen = np.isin(labels, np.arange(len(given))[classes])
    names = np.array([Path(str(name)).name for name in names[chosen]])
    origins = np.unique([re.sub(r"-\d+\.png$", "", name) for name in names], return_inverse=True)[1]
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Rows(features[chosen], np.unique(labels[chosen], return_inverse=True)[1], names, origins, digest)


def _cell(name: str, rows: Rows, shot: int, occasions: int, tasks: int, seed: int) -> CoverageCell:
    found: list[tuple[Learned, np.ndarray, np.ndarray, np.ndarray]] = []
    for shots, queries in _tasks(rows, shot, occasions, tasks, seed):
        learned = learn("ridge", _support(rows, shots), None)
        asked = rows.features[queries.flatten()]
        logits = learned.linear.logits(asked) * learned.linear.temperature
        right = logits.argmax(axis=1) == np.arange(WAY).repeat(queries.shape[1])
        tempered = softmax(logits / learned.linear.temperature, axis=1).max(axis=1)
        found.append((learned, right, tempered, softmax(logits, axis=1).max(axis=1)))
    right, sure, plain = (np.concatenate(column) for column in list(zip(*found, strict=True))[1:])
    told = [_told(learned, right.mean()) for learned, right, *_ in found if learned.trust.interval]
    columns = [np.array(column, dtype=np.float64) for column in zip(*told, strict=True)]
    covered = Score.of(columns[1]) if told else None
    return CoverageCell(
        *(name, WAY, shot, occasions, len(found), float(right.mean())),
        left_out=float(columns[0].mean()) if told else None,
        covered=covered.mean if covered else None,
        covered_ci95=covered.ci95 if covered else None,
        below=float(columns[2].mean()) if told else None,
        width=float(columns[3].mean()) if told else None,
        less_certain=float(np.mean(["occasion" in learned.trust.in_words for learned, *_ in found])),
        calibration_error=expected_calibration_error(sure, right),
        too_sure=float(sure.mean() - right.mean()),
        untempered_error=expected_calibration_error(plain, right),
    )


def _told(learned: Learned, accuracy: float) -> tuple[float, bool, bool, float]:
    trust, interval = learned.trust, learned.trust.interval
    assert interval is not None
    low, high = interval
    return trust.right / trust.tested, low <= accuracy <= high, accuracy < low, high - low


def _tasks(
    rows: Rows, shot: int, occasions: int, tasks: int, seed: int
) -> Iterator[tuple[Int[np.ndarray, "N K"], Int[np.ndarray, "N Q"]]]:
    """Shots and queries of random classes, each task from its own random stream."""
    members = [np.flatnonzero(rows.labels == label) for label in range(rows.labels.max() + 1)]
    drawn = 0
    for number in range(20 * tasks):  # some classes have too few sketches of a photo
        generator = np.random.default_rng([seed, shot, occasions, number])
        chosen = generator.choice(len(members), WAY, replace=False)
        split = [_split(rows, generator.permutation(members[each]), shot, occasions) for each in chosen]
        count = min(QUERIES, *(len(queries) for _, queries in split))
        if count < 3 or any(len(shots) < shot for shots, _ in split):
            continue
        yield np.array([shots for shots, _ in split]), np.array([asked[:count] for _, asked in split])
        drawn += 1
        if drawn == tasks:
            return


def _split(
    rows: Rows, photos: Int[np.ndarray, " n"], shot: int, occasions: int
) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " q"]]:
    """The shots of a class and the photos that may be queries."""
    if not occasions:
        return photos[:shot], photos[shot:]
    origins = rows.origins[photos]
    used = list(dict.fromkeys(origins.tolist()))[:occasions]
    turns = [
        photos[origins == origin][: -(-(shot - place) // occasions)] for place, origin in enumerate(used)
    ]
    return np.concatenate(turns), photos[~np.isin(origins, used)]


def _support(rows: Rows, shots: Int[np.ndarray, "N K"]) -> Support:
    places = shots.flatten()
    support = support_of_rows(rows.features[places], np.arange(len(shots)).repeat(shots.shape[1]))
    return replace(support, names=tuple(rows.names[places].tolist()))


def _shuffled(rows: Rows, seed: int) -> dict[str, Any]:
    """Whether sets of photos give the same figures and weights, to the last digit, in any order."""
    generator = np.random.default_rng(seed)
    same = []
    for shots, _ in _tasks(rows, 5, 0, SHUFFLED_SETS, seed):
        support = _support(rows, shots)
        first = learn("ridge", support, None)
        for _ in range(SHUFFLES):
            again = learn("ridge", support.take(generator.permutation(len(support))), None)
            figures = ("right", "interval", "temperature", "closeness", "confusions", "weakest")
            equal = all(getattr(first.trust, each) == getattr(again.trust, each) for each in figures)
            same.append(equal and bool((first.linear.weight == again.linear.weight).all()))
    return {"sets": SHUFFLED_SETS, "shuffles": len(same), "same_to_the_last_digit": sum(same)}
