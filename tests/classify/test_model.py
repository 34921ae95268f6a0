"""Soft k-means against a loop."""

import numpy as np
import pytest

from fewset.classify.heads import prepared
from fewset.classify.model import probabilities_together
from tests.helpers.classifier_tasks import labelled_rows, unit


@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("shots", [(1, 1, 1), (2, 5, 3)])
def test_as_a_loop_has_it(steps: int, shots: tuple[int, ...]) -> None:
    support, labels = labelled_rows(1, shots)
    queries, _ = labelled_rows(2, (7, 2, 4))
    support, queries = prepared(support, 0.5), prepared(queries, 0.5)
    found = probabilities_together(queries, support, labels, steps=steps)

    way = len(shots)
    centre = np.mean([support[labels == label].mean(axis=0) for label in range(way)], axis=0)
    shots_of = [[unit(row - centre) for row in support[labels == label]] for label in range(way)]
    rows = [unit(row - centre) for row in queries]
    prototypes = [unit(sum(own)) for own in shots_of]

    def shares(row: np.ndarray) -> np.ndarray:
        raised = np.array([np.exp(15 * row @ prototype) for prototype in prototypes])
        return raised / raised.sum()

    for _ in range(steps):
        given = [shares(row) for row in rows]
        prototypes = [
            unit(
                sum(shots_of[label]) + sum(share[label] * row for share, row in zip(given, rows, strict=True))
            )
            for label in range(way)
        ]
    np.testing.assert_allclose(found, [shares(row) for row in rows], atol=1e-12)


def test_the_order_of_the_photos_does_not_matter() -> None:
    support, labels = labelled_rows(1)
    queries, _ = labelled_rows(2)
    order = np.random.default_rng(0).permutation(len(queries))
    np.testing.assert_allclose(
        probabilities_together(queries[order].astype(np.float64), support.astype(np.float64), labels),
        probabilities_together(queries.astype(np.float64), support.astype(np.float64), labels)[order],
    )
