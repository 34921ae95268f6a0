"""What a background is worth, on tasks of classes that are in none of its parts."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.classifier.accuracy import head_accuracy
from benchmarks.classifier.background_gain import background_gain, measure_background
from benchmarks.classifier.embedded import EmbeddedSet, SetSource
from fewset.classify.heads import DEFAULT, find_classifier_head
from tests.helpers.backgrounds import domain_rows, noise_rows
from tests.helpers.embedded_sets import embedded, write_many_classes
from tests.helpers.photos import TinyEncoder


def table(rows: np.ndarray, labels: np.ndarray) -> EmbeddedSet:
    names = tuple(f"class {label}" for label in range(labels.max() + 1))
    return replace(
        embedded(),
        features=rows,
        labels=labels,
        class_names=names,
        fingerprints=np.zeros(len(labels), np.uint64),
    )


def test_the_gain_is_paired_and_on_other_classes() -> None:
    items = table(*domain_rows(7, classes=20, shots=16))
    cell = background_gain(table(*domain_rows(0, 40, 11)), items, way=5, shot=1, tasks=200)
    assert cell.comparison.kept
    alone = head_accuracy(find_classifier_head(DEFAULT), items, cell.spec)
    np.testing.assert_array_equal(cell.alone.per_task, alone)
    assert cell.gain.mean == pytest.approx(cell.adapted.mean - cell.alone.mean, abs=1e-6)
    assert cell.gain.mean > cell.gain.ci95


def test_what_is_not_kept_gains_nothing() -> None:
    items = table(*domain_rows(7, classes=20, shots=16))
    cell = background_gain(table(*noise_rows(0, 40, 11)), items, way=5, shot=1, tasks=20)
    assert not cell.comparison.kept
    assert cell.gain.mean == 0


def test_the_file_says_what_made_it(tmp_path: Path) -> None:
    write_many_classes(tmp_path / "photos" / "train", 20, 11)
    write_many_classes(tmp_path / "photos" / "test", 7, 8)
    where = [SetSource("folder", tmp_path / "photos", split) for split in ("train", "test")]
    out = tmp_path / "gain.json"
    cells = measure_background(where[0], where[1], TinyEncoder(), out, seed=3, most=4)
    record = json.loads(out.read_text())
    assert [(cell["way"], cell["shot"], cell["tasks"]) for cell in record["cells"]] == [
        (5, 1, 4),
        (5, 5, 4),
        (7, 1, 4),
        (7, 5, 4),
    ]
    assert record["cells"][0]["gain"]["mean"] == cells[0].gain.mean
    assert record["background"]["classes"] == 20
    assert record["tested"]["split"] == "test"
    assert {"command", "commit", "versions", "seed", "encoder_digest"} <= set(record)
