import numpy as np
import pytest
import torch

from fewset.evaluation.scoring import evaluate
from fewset.models.adapters import ADAPTERS
from fewset.tasks.sampling import ClassIndex, sample_tasks
from fewset.tasks.spec import TaskSpec
from tests.helpers.embedded import model_with, table

SPEC = TaskSpec(way=3, shot=2, query=5, tasks=31, seed=2)


def test_protonet_against_a_loop() -> None:
    features, labels = table()
    score = evaluate(model_with("identity"), features, labels, SPEC)
    index = ClassIndex(labels)
    for number in range(SPEC.tasks):
        (rows,) = sample_tasks(index, SPEC, number, number + 1)
        centres = [features[one[:2]].numpy().mean(0) for one in rows]
        right = 0
        for way, one in enumerate(rows):
            for row in one[2:]:
                distances = [((features[row].numpy() - centre) ** 2).sum() for centre in centres]
                right += int(np.argmin(distances) == way)
        assert score.per_task[number] == pytest.approx(right / 15)
    assert 0.4 < score.mean < 0.95  # neither trivial nor chance


@pytest.mark.parametrize("adapter", sorted(ADAPTERS))
def test_results_do_not_depend_on_the_chunk(adapter: str) -> None:
    features, labels = table()
    scores = [
        evaluate(model_with(adapter), features, labels, SPEC, chunk=chunk)
        for chunk in (1, 2, 7, 31, 100, None)
    ]
    for score in scores[1:]:
        np.testing.assert_array_equal(score.per_task, scores[0].per_task)


def test_the_table_may_be_of_tensors_or_of_arrays() -> None:
    features, labels = table()
    first = evaluate(model_with("identity"), features, labels, SPEC)
    second = evaluate(model_with("identity"), features.numpy(), torch.from_numpy(labels), SPEC)
    np.testing.assert_array_equal(first.per_task, second.per_task)


def test_a_prefix_of_the_tasks_is_the_same_tasks() -> None:
    features, labels = table()
    few = TaskSpec(way=3, shot=2, query=5, tasks=17, seed=2)
    long, short = (evaluate(model_with("attention"), features, labels, spec) for spec in (SPEC, few))
    np.testing.assert_array_equal(long.per_task[:17], short.per_task)
