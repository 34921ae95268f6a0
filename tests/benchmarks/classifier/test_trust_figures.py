"""Trust figures against loops that are obviously right."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from benchmarks.classifier.accuracy import drawn_tasks
from benchmarks.classifier.trust_figures import (
    area_under_curve,
    expected_calibration_error,
    learned_of,
    trust_figures,
)
from fewset.classify.classifier import FewShotClassifier
from fewset.tasks.spec import TaskSpec
from tests.helpers.embedded_sets import embedded


def calibration_error(sure: list[float], right: list[bool], bins: int) -> float:
    total = 0.0
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        inside = [k for k, p in enumerate(sure) if low <= p < high or (number == bins - 1 and p == 1)]
        if inside:
            probability = sum(sure[k] for k in inside) / len(inside)
            share = sum(right[k] for k in inside) / len(inside)
            total += len(inside) / len(sure) * abs(probability - share)
    return total


@pytest.mark.parametrize("bins", [7, 15])
def test_calibration_error(bins: int) -> None:
    generator = np.random.default_rng(0)
    sure = np.append(generator.uniform(0.2, 1, size=211), [1.0, 0.2])
    right = generator.uniform(size=213) < sure**2
    expected = calibration_error(sure.tolist(), right.tolist(), bins)
    assert expected_calibration_error(sure, right, bins) == pytest.approx(expected)
    assert expected > 0.1


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 13), st.integers(1, 11), st.integers(0, 2**32 - 1))
def test_area_under_curve(known: int, strangers: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    first, second = generator.integers(0, 7, known) / 7, generator.integers(0, 7, strangers) / 7
    pairs = [(a > b) + (a == b) / 2 for a in first for b in second]
    assert area_under_curve(first, second) == pytest.approx(np.mean(pairs))
    both = np.repeat([1, 0], [known, strangers])
    assert area_under_curve(first, second) == pytest.approx(roc_auc_score(both, np.append(first, second)))


@pytest.mark.parametrize("origins", [0, 5])
def test_as_a_classifier_for_each_task(origins: int) -> None:
    items = embedded(classes=17, each=13, dim=53, origins=origins)
    spec = TaskSpec(way=5, shot=4, query=3, tasks=7, seed=3)
    sure, right, covered, bias, auroc, away, found = [], [], [], [], [], [], []
    for (task,), (wider,) in zip(
        drawn_tasks(items, spec), drawn_tasks(items, replace(spec, way=10)), strict=True
    ):
        shots, queries, strangers = task[:, :4].flatten(), task[:, 4:].flatten(), wider[5:, 4:].flatten()
        classifier = FewShotClassifier(head="ridge", reject="auto")
        groups = None if items.origins is None else items.origins[shots]
        classifier.fit(items.features[shots], items.labels[shots], groups)
        probabilities = classifier.predict_proba(items.features[queries])
        answers = classifier.classes_[probabilities.argmax(axis=1)] == items.labels[queries]
        sure += probabilities.max(axis=1).tolist()
        right += answers.tolist()
        interval, trust = classifier.trust_.interval, classifier.trust_
        assert interval is not None
        covered.append(interval.low <= answers.mean() <= interval.high)
        bias.append(trust.right / trust.tested - answers.mean())
        near = [
            [answer.closeness for answer in classifier.answers(items.features[rows])]
            for rows in (queries, strangers)
        ]
        auroc.append(roc_auc_score(np.repeat([1, 0], [15, 15]), near[0] + near[1]))
        away.append((classifier.predict(items.features[queries]) == -1).mean())
        found.append((classifier.predict(items.features[strangers]) == -1).mean())
    figures = trust_figures("ridge", items, spec)
    assert figures.calibration_error == pytest.approx(calibration_error(sure, right, 15))
    assert figures.overconfidence == pytest.approx(np.mean(sure) - np.mean(right))
    np.testing.assert_array_equal(figures.covered.per_task, covered)
    np.testing.assert_allclose(figures.left_out_bias.per_task, bias)
    np.testing.assert_allclose(figures.left_out_error.per_task, np.abs(bias))
    np.testing.assert_allclose(figures.auroc.per_task, auroc)
    np.testing.assert_allclose(figures.turned_away.per_task, away)
    np.testing.assert_allclose(figures.strangers_found.per_task, found)


def test_fingerprints_tell_copies() -> None:
    """Two shots that the fingerprints say are one photo count once."""
    items = embedded()
    shots = np.array([np.flatnonzero(items.labels == label)[:4] for label in range(3)])
    first, second = shots[0, :2]
    items.features[second] = items.features[first] * np.linspace(0.9, 1.1, 29)
    assert learned_of("ridge", items, shots).trust.copies == ()
    items.fingerprints[[first, second]] = 12345
    assert learned_of("ridge", items, shots).trust.copies == ((0, 1),)
