"""None of these: the closeness against a loop and a fit of scikit-learn, and the threshold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gumbel_l, norm
from sklearn.linear_model import Ridge

from fewset.classify.trust.rejection import POWER, STRENGTH, closeness, threshold
from tests.helpers.classifier_tasks import labelled_rows, unit


def raised(row: np.ndarray) -> np.ndarray:
    return unit(np.sign(row) * np.abs(row.astype(np.float64)) ** POWER)


def naive(features: np.ndarray, labels: np.ndarray, row: np.ndarray) -> float:
    rows, known = np.array([raised(feature) for feature in features]), sorted(set(labels.tolist()))
    prototypes = [unit(rows[labels == label].sum(axis=0)) for label in known]
    targets = (labels[:, None] == known).astype(np.float64)
    regression = Ridge(alpha=STRENGTH, fit_intercept=False).fit(rows, targets)
    cosine = max(float(raised(row) @ other) for other in [*rows, *prototypes])
    return (cosine + float(regression.predict(raised(row)[None]).max())) / 2


@pytest.mark.parametrize("dim", [3, 17])  # fewer than photos, and more
def test_the_closeness_and_the_nearest_photo(dim: int) -> None:
    features, labels = labelled_rows(1)
    queries, _ = labelled_rows(2)
    features, queries = features[:, :dim], queries[:, :dim]
    compared = closeness(features, labels)
    expected = [naive(features, labels, query) for query in queries]
    np.testing.assert_allclose(compared.of(queries), expected, atol=1e-9)
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


def test_the_threshold_rejects_the_share_on_average() -> None:
    """Of the next value of a sample, normal or skewed; below the smallest value only of a normal one."""
    for distribution, count, tolerance in (
        (norm(0.5, 0.1), 3, 0.02),
        (norm(0.5, 0.1), 10, 0.01),
        (norm(0.5, 0.1), 59, 0.01),
        (gumbel_l(0.5, 0.1), 59, 0.01),
    ):
        samples = distribution.rvs((500, count), random_state=0)
        found = np.array([threshold(tuple(sample), 1_000, 0.05) for sample in samples])
        gain = distribution.std() * (1 + 2 / 1_000) / 2  # that of classes of few photos
        assert distribution.cdf(found - gain).mean() == pytest.approx(0.05, abs=tolerance)


def test_the_threshold_is_lower_for_a_smaller_share_and_for_fewer_photos() -> None:
    close = np.linspace(0.4, 0.6, 20).tolist()
    assert threshold(close, 4, 0.01) < threshold(close, 4, 0.05) < threshold(close, 4, 0.2)
    assert threshold([0.4, 0.6], 100, 0.05) < threshold([0.4, 0.6] * 10, 100, 0.05)
    assert threshold([0.5, 0.5], 2, 0.05) < 0.5, "equal values do not mean that all photos are as close"
    assert threshold([], 2, 0.05) == -np.inf
