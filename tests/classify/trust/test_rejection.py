"""None of these: the largest cosine, against a loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewset.classify.trust.rejection import closeness, threshold
from tests.helpers.classifier_tasks import labelled_rows, unit


def naive(features: np.ndarray, labels: np.ndarray, row: np.ndarray) -> float:
    rows = [unit(feature) for feature in features.astype(np.float64)]
    prototypes = [
        unit(sum(shot for shot, own in zip(rows, labels, strict=True) if own == label))
        for label in set(labels.tolist())
    ]
    return max(float(unit(row.astype(np.float64)) @ other) for other in [*rows, *prototypes])


def test_the_largest_cosine_and_the_nearest_photo() -> None:
    features, labels = labelled_rows(1)
    queries, _ = labelled_rows(2)
    compared = closeness(features, labels)
    expected = [naive(features, labels, query) for query in queries]
    np.testing.assert_allclose(compared.largest(queries), expected, atol=1e-12)
    assert compared.nearest(features).tolist() == list(range(len(labels)))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 4), min_size=2, max_size=4))
def test_left_out_is_a_comparison_with_the_others(seed: int, shots: list[int]) -> None:
    """Copies are left out together; the only photo of a class says nothing."""
    features, labels = labelled_rows(seed, tuple(shots))
    copies = np.random.default_rng(seed).integers(0, max(2, len(labels) - 2), size=len(labels))
    found = closeness(features, labels).left_out(copies)
    for number, cosine in enumerate(found):
        others = copies != copies[number]
        if labels[number] in labels[others]:
            assert cosine == pytest.approx(naive(features[others], labels[others], features[number]))
        else:
            assert np.isnan(cosine)


def test_the_threshold_turns_a_share_away() -> None:
    cosines = np.linspace(0, 1, 101).tolist()
    assert threshold(cosines, 0.05) == pytest.approx(0.05)
    assert threshold(cosines, 0.5) == pytest.approx(0.5)
    assert threshold([], 0.05) == -np.inf
