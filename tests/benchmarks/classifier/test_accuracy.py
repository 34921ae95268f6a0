"""Accuracy on many tasks at once, against a classifier for each task."""

import numpy as np
import pytest

from benchmarks.classifier import accuracy
from benchmarks.classifier.accuracy import drawn_tasks, head_accuracy, task_spec
from fewset.classify.classifier import FewShotClassifier
from fewset.classify.heads import CLASSIFIER_HEADS, find_classifier_head
from fewset.tasks.spec import TaskSpec
from tests.helpers.embedded_sets import embedded


@pytest.mark.parametrize("origins", [0, 5])
@pytest.mark.parametrize("name", sorted(CLASSIFIER_HEADS))
def test_as_a_classifier_for_each_task(name: str, origins: int, monkeypatch: pytest.MonkeyPatch) -> None:
    items = embedded(origins=origins)
    spec = TaskSpec(way=7, shot=3, query=3, tasks=11, seed=5)
    expected = []
    for (task,) in drawn_tasks(items, spec):
        shots, queries = task[:, :3].flatten(), task[:, 3:].flatten()
        classifier = FewShotClassifier(head=name).fit(items.features[shots], items.labels[shots])
        expected.append(classifier.score(items.features[queries], items.labels[queries]))
    found = head_accuracy(find_classifier_head(name), items, spec)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert 0.3 < found.mean() < 0.98
    monkeypatch.setattr(accuracy, "_CHUNK_NUMBERS", 1)
    np.testing.assert_array_equal(head_accuracy(find_classifier_head(name), items, spec), found)


def test_as_many_queries_as_every_class_has() -> None:
    assert task_spec(embedded(each=7), 5, 1, 3, 0).query == 6
    assert task_spec(embedded(each=31), 5, 1, 3, 0).query == 15
    assert task_spec(embedded(each=31), 5, 1, 3, 0, most=100).query == 30
    assert task_spec(embedded(each=10, origins=5), 5, 1, 3, 0).query == 4  # one of each other origin
    assert task_spec(embedded(each=10, origins=5), 5, 5, 3, 0).query == 4  # all of two origins
    assert task_spec(embedded(each=10, origins=5), 5, 5, 3, 0, most=3).query == 3


def test_origins_are_kept_apart() -> None:
    items = embedded(origins=4)
    assert items.origins is not None
    for task in drawn_tasks(items, TaskSpec(3, 2, 3, 17), 5):
        for rows in task.reshape(-1, 5):
            assert not set(items.origins[rows[:2]]) & set(items.origins[rows[2:]])
