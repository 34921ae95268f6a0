"""The plain loop over tasks scores the tasks that it draws as `fewset.evaluate` scores its own."""

import numpy as np
import pytest

from fewset.bench.table_sides import CLASSES, ROWS, PlainTable, TableScoring, made_up_table

SIZES = {"way": 5, "shot": 3, "query": 7}


def test_the_table_has_the_size_of_a_test_split() -> None:
    features, labels = made_up_table(11)
    assert features.shape == (CLASSES * ROWS, 11)
    assert np.bincount(labels).tolist() == [ROWS] * CLASSES


def test_both_sides_find_the_same_accuracy() -> None:
    sides = [side(dim=11, each=300, **SIZES)() for side in (TableScoring, PlainTable)]
    accuracies = [np.array(one["accuracies"]) for one in sides]
    assert sides[0]["images"] == sides[1]["images"] == 300 * 5 * 10
    assert all(0.3 < each.mean() < 0.95 for each in accuracies)
    error = np.sqrt(sum(each.var() / len(each) for each in accuracies))
    assert accuracies[0].mean() == pytest.approx(accuracies[1].mean(), abs=4 * error)


def test_a_task_of_the_plain_loop_has_distinct_items_of_distinct_classes() -> None:
    side = PlainTable(dim=2, each=3, **SIZES)
    _, labels = made_up_table(2)
    for items in side.loader.batch_sampler:
        assert len(set(items)) == 5 * 10
        assert sorted(np.bincount(labels[items], minlength=CLASSES)) == [0] * 15 + [10] * 5
