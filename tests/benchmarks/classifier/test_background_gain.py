"""What a background is worth, on tasks of classes that are in none of its parts."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.classifier.accuracy import head_accuracy
from benchmarks.classifier.background_gain import background_gain
from benchmarks.classifier.embedded import EmbeddedSet
from fewset.classify.heads import DEFAULT, find_classifier_head
from tests.helpers.backgrounds import domain_rows, noise_rows
from tests.helpers.embedded_sets import embedded


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
