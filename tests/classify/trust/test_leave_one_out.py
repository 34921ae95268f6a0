"""Leave-one-out against brute force: a new fit from scratch for each photo, without the left-out ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewset.classify.heads import CLASSIFIER_HEADS, find_classifier_head, prepared
from fewset.classify.trust.leave_one_out import left_out_logits, left_out_turns
from tests.helpers.backgrounds import random_head
from tests.helpers.classifier_tasks import left_out_by_refitting, task


@pytest.mark.parametrize("name", [*sorted(CLASSIFIER_HEADS), "FEAT"])
@pytest.mark.parametrize(("dim", "shots"), [(29, (3, 3, 3)), (5, (4, 2, 7)), (31, (1, 2, 4, 1))])
def test_as_brute_force(name: str, dim: int, shots: tuple[int, ...]) -> None:
    """FEAT, from a background, knows the axes: its rows must not be rotated."""
    head = random_head(dim) if name == "FEAT" else find_classifier_head(name)
    features, labels, _ = task(0, dim, shots)
    alone = np.arange(len(labels))
    found = left_out_logits(head, prepared(features, head.power), labels, len(shots), alone)
    tolerance = 1e-3 if name == "logistic" else 1e-10  # scikit-learn's solver stops by a tolerance
    np.testing.assert_allclose(found, left_out_by_refitting(head, features, labels, alone), atol=tolerance)
    assert np.isnan(found[:, 0]).tolist() == [shots[label] == 1 for label in labels]


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.lists(st.integers(1, 4), min_size=2, max_size=4), st.sampled_from([2, 20])
)
def test_copies_are_left_out_together(seed: int, shots: list[int], fits: int) -> None:
    features, labels, _ = task(seed, 11, tuple(shots))
    copies = np.random.default_rng(seed).integers(0, max(2, len(labels) - 2), size=len(labels))
    head = find_classifier_head("ridge")
    rows = prepared(features, 0.5)
    found = left_out_logits(head, rows, labels, len(shots), copies, fits)
    np.testing.assert_allclose(found, left_out_by_refitting(head, features, labels, copies, fits), atol=1e-10)


def test_each_turn_takes_one_photo_of_a_class() -> None:
    labels = np.array([2, 0, 0, 1, 2, 1, 1, 0, 2])
    turns = left_out_turns(labels, np.arange(9))
    for label in range(3):
        assert turns[labels == label].tolist() == [0, 1, 2]
    assert left_out_turns(labels, np.arange(9), fits=2).max() == 1
    copies = np.array([0, 1, 2, 3, 4, 3, 6, 7, 8])
    assert left_out_turns(labels, copies)[[3, 5, 6]].tolist() == [0, 0, 1]
    cameras = np.array([0, 0, 1, 0, 1, 1, 2, 2, 2])  # each has photos of all classes
    assert left_out_turns(labels, cameras).tolist() == cameras.tolist()


@pytest.mark.parametrize("name", sorted(CLASSIFIER_HEADS))
def test_noise_is_at_chance(name: str) -> None:
    """What leaks is right on noise: ridge that centres on the left-out photo shows 100 %."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), 5)
    head = find_classifier_head(name)
    right = []
    for _ in range(8):
        rows = prepared(generator.exponential(size=(25, 211)), head.power)
        right.append((left_out_logits(head, rows, labels, 5, np.arange(25)).argmax(axis=1) == labels).mean())
    assert np.mean(right) == pytest.approx(0.2, abs=0.06)


def test_the_mean_that_is_taken_off_does_not_know_the_left_out_photos() -> None:
    """They are far from all others: had they moved the mean, the answers would be others."""
    head = find_classifier_head("ridge")
    features, labels, _ = task(0, 29, (3, 3))
    features[[0, 3]] *= np.linspace(0, 100, 29)
    rows = prepared(features, 0.5)
    stay = [1, 2, 4, 5]
    alone = head.solve(rows[None, stay], np.eye(2)[labels[stay]][None])
    np.testing.assert_allclose(alone.shift[0], rows[stay].mean(axis=0))
    found = left_out_logits(head, rows, labels, 2, np.array([0, 1, 2, 0, 4, 5]))
    np.testing.assert_allclose(found[[0, 3]], alone.logits(rows[None, [0, 3]])[0], atol=1e-10)
