"""How well "none of these" holds: own photos that are rejected, and how unknown classes are told apart.

Each FILE is an .npz with `features`, `labels` and `names`: rows of the frozen encoder. In the names
of sketches the photo that was drawn comes before the hyphen; no query has that of a shot.

Example: `python -m benchmarks.classifier.rejection cub-test.npz -o results/classifier/rejection.json`
"""

import argparse
import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata

from fewset.classify.heads import prepared, unit_rows
from fewset.classify.trust.rejection import closeness, threshold
from fewset.compute.machine import describe
from fewset.io.files import write_text

SIZES = [(way, shot) for way in (2, 5, 20) for shot in (2, 5, 10)] + [(5, 1)]
SHARES = (0.05, 0.1)
QUERIES = 10


def measured(file: Path, first: int, tasks: int, seed: int) -> dict[str, Any]:
    """The figures of the classes of a file from number `first` on, for each size of task."""
    with np.load(file) as stored:
        features, names = stored["features"], stored["names"]
        labels = np.unique(stored["labels"], return_inverse=True)[1]
    stems = [Path(str(name)).stem for name in names]
    drawn = [stem.partition("-")[0] for stem in stems] if "Sketch" in str(names[0]) else stems
    origins = np.unique(drawn, return_inverse=True)[1]
    classes = np.arange(first, labels.max() + 1)
    random, cells = np.random.default_rng(seed), {}
    for way, shot in SIZES:
        if way > len(classes):
            continue
        unknown = min(way, len(classes) - way)
        count = tasks if way < 20 else max(10, tasks // 4)
        rows = [
            _task(features, labels, origins, random.permutation(classes)[: way + unknown], way, shot, random)
            for _ in range(count)
        ]
        figures = {name: [row[name] for row in rows if name in row] for name in rows[0]}
        cells[f"{way}-way {shot}-shot"] = {"tasks": count} | {
            name: [
                round(float(np.mean(values)), 4),
                round(1.96 * float(np.std(values)) / len(values) ** 0.5, 4),
            ]
            for name, values in figures.items()
            if np.isfinite(values).all()  # none where there are no other classes
        }
    return {"rows": sha256(file.read_bytes()).hexdigest()[:12], "classes": len(classes), "cells": cells}


def _task(
    features: np.ndarray,
    labels: np.ndarray,
    origins: np.ndarray,
    classes: np.ndarray,
    way: int,
    shot: int,
    random: np.random.Generator,
) -> dict[str, float]:
    shots: list[int] = []
    queries: list[int] = []
    others: list[int] = []
    for place, label in enumerate(classes):
        own = random.permutation(np.flatnonzero(labels == label))
        held: list[int] = []
        for origin in random.permutation(np.unique(origins[own])):
            if len(held) + QUERIES <= len(own) - shot or not held:
                held += own[origins[own] == origin].tolist()
            if len(held) >= QUERIES:
                break
        (queries if place < way else others).extend(held[:QUERIES])
        left = own[~np.isin(own, held)]
        turns = [int((origins[left[:number]] == origins[photo]).sum()) for number, photo in enumerate(left)]
        spread = left[np.argsort(turns, kind="stable")]  # shots of as many origins as possible
        shots += spread[:shot].tolist() if place < way else []
    shown = np.unique(labels[shots], return_inverse=True)[1]
    compared = closeness(features[shots], shown)
    known, unknown = compared.of(features[queries]), compared.of(features[others])
    found = {"auroc": area_under_curve(known, unknown)}
    rows = prepared(features[shots], 1.0)
    prototypes = unit_rows(np.eye(way)[shown].T @ rows)
    before = [
        (prepared(features[part], 1.0) @ np.concatenate([rows, prototypes]).T).max(axis=1)
        for part in (queries, others)
    ]
    found["auroc of the cosine"] = area_under_curve(*before)
    if shot > 1:
        left_out = compared.left_out(np.unique(origins[shots], return_inverse=True)[1])
        left_out = left_out[~np.isnan(left_out)]
        for share in SHARES:
            limit = threshold(left_out.tolist(), way, share)
            found[f"rejected at {share}"] = float((known < limit).mean())
            found[f"unknown found at {share}"] = float((unknown < limit).mean())
    return found


def area_under_curve(known: Float[np.ndarray, " k"], unknown: Float[np.ndarray, " u"]) -> float:
    """The share of pairs of a known and an unknown photo in which the known is closer; ties count half."""
    ranks = rankdata(np.concatenate([known, unknown]))[: len(known)]
    return float((ranks.sum() - len(known) * (len(known) + 1) / 2) / (len(known) * len(unknown)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--first", type=int, default=0, help="of the classes, those from this number on")
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--out", type=Path, required=True)
    given = parser.parse_args()
    known = json.loads(given.out.read_text()) if given.out.exists() else {"sets": {}}
    for file in given.files:
        known["sets"][file.stem] = measured(file, given.first, given.tasks, given.seed) | {
            "command": " ".join(["python -m benchmarks.classifier.rejection", *sys.argv[1:]]),
            "seed": given.seed,
            **{name: value for name, value in describe().items() if name in ("commit", "python", "numpy")},
        }
        write_text(given.out, json.dumps(known) + "\n")
