"""Leave-one-out against brute force: a new fit from scratch without the photo, for each photo."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fewset.classify.heads import (
    CLASSIFIER_HEADS,
    ClassifierHead,
    class_means,
    find_classifier_head,
    signed_power,
)
from fewset.classify.leave_one_out import left_out_logits
from tests.helpers.classifier_tasks import answers, task


def brute_force(
    head: ClassifierHead, features: np.ndarray, labels: np.ndarray, copies: np.ndarray
) -> np.ndarray:
    """Each photo classified after a fit on the features of the others, in all their dimensions."""
    logits = np.full((len(labels), labels.max() + 1), np.nan)
    for number in range(len(labels)):
        others = copies != copies[number]
        if labels[number] in labels[others]:
            # A class that lost its only photo would stay without an answer: its photos stay in.
            for label in set(range(labels.max() + 1)) - set(labels[others]):
                others |= labels == label
            parts = (
                torch.from_numpy(part) for part in (features[others], labels[others], features[[number]])
            )
            logits[number] = answers(head, *parts)[0].numpy()
    return logits


@pytest.mark.parametrize("name", sorted(CLASSIFIER_HEADS))
@pytest.mark.parametrize(("dim", "shots"), [(29, (3, 3, 3)), (5, (4, 2, 7)), (31, (1, 2, 4, 1))])
def test_as_brute_force(name: str, dim: int, shots: tuple[int, ...]) -> None:
    head = find_classifier_head(name)
    features, labels, _ = task(0, dim, shots)
    rows = signed_power(features, head.power)
    tolerance = 1e-3 if name == "logistic" else 1e-10  # scikit-learn's solver stops by a tolerance
    np.testing.assert_allclose(
        left_out_logits(head, rows, labels.numpy(), len(shots)),
        brute_force(head, features.numpy(), labels.numpy(), np.arange(len(labels))),
        atol=tolerance,
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 4), min_size=2, max_size=4))
def test_copies_are_left_out_together(seed: int, shots: list[int]) -> None:
    generator = np.random.default_rng(seed)
    features, labels, _ = task(seed, 11, tuple(shots))
    copies = generator.integers(0, max(2, len(labels) - 2), size=len(labels))
    head = find_classifier_head("ridge")
    found = left_out_logits(head, signed_power(features, 0.5), labels.numpy(), len(shots), copies)
    expected = brute_force(head, features.numpy(), labels.numpy(), copies)
    np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("name", sorted(CLASSIFIER_HEADS))
def test_noise_is_at_chance(name: str) -> None:
    """What leaks is right on noise: ridge that centres on the left-out photo shows 100 %."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), 5)
    head = find_classifier_head(name)
    right = []
    for _ in range(20):
        rows = signed_power(torch.from_numpy(generator.exponential(size=(25, 211))), head.power)
        right.append((left_out_logits(head, rows, labels, 5).argmax(axis=1) == labels).mean())
    # A photo's own class has a shot less than the others, so less than 1/5 is expected.
    assert np.mean(right) < 0.25


def test_many_photos_are_left_out_in_groups_across_the_classes() -> None:
    head = find_classifier_head("ridge")
    features, labels, _ = task(0, 7, (6, 6, 6))
    rows = signed_power(features, 0.5)
    found = left_out_logits(head, rows, labels.numpy(), 3, work=6 * (7**3 / 3 + 7 * 7 * 18))
    assert np.isfinite(found).all()
    for group in range(6):  # one of each class
        out = np.arange(18) % 6 == group
        parts = (torch.from_numpy(part) for part in (features.numpy()[~out], labels.numpy()[~out]))
        expected = answers(head, *parts, features[torch.from_numpy(out)]).numpy()
        np.testing.assert_allclose(found[out], expected, atol=1e-10)


def test_the_mean_that_is_taken_off_does_not_know_the_left_out_photo() -> None:
    """A photo far from all others: had it moved the mean, the others' answers to it would be another."""
    head = find_classifier_head("ridge")
    features, labels, _ = task(0, 29, (3, 3))
    features[0] *= torch.linspace(0, 100, 29)
    rows = signed_power(features, 0.5)
    others = torch.eye(2, dtype=torch.float64)[labels[1:]].unsqueeze(0)
    shift = head.solve(rows[None, 1:], others).shift
    torch.testing.assert_close(shift, class_means(rows[None, 1:], others).mean(dim=1))
    found = left_out_logits(head, rows, labels.numpy(), 2)[0]
    expected = head.solve(rows[None, 1:], others).logits(rows[None, :1])[0, 0].numpy()
    np.testing.assert_allclose(found, expected, atol=1e-10)
