"""The picture against a slow oracle."""

import numpy as np
import pytest

from fewset import FewShotClassifier
from fewset.classify.serve.payloads import projection
from fewset.classify.serve.workbench import Moment, Workbench
from tests.helpers.web import STAMP


def moment(head: str, features: np.ndarray, labels: list[str]) -> Moment:
    learned = FewShotClassifier(head=head).fit(features.astype(np.float32), labels).learned_
    return Workbench(STAMP, learned, None).moment()


def rows(shots: int = 7, dim: int = 13) -> tuple[np.ndarray, list[str]]:
    generator = np.random.default_rng(3)
    means = generator.random((3, dim)) * 4
    return (
        np.concatenate([mean + generator.random((shots, dim)) for mean in means]).astype(np.float32),
        [label for label in "abc" for _ in range(shots)],
    )


def oracle_plane(centred: np.ndarray) -> np.ndarray:
    """The two leading directions by the power method, one after another."""
    left = centred.copy()
    found = []
    for _ in range(2):
        direction = np.ones(centred.shape[1])
        for _ in range(5000):
            direction = left.T @ (left @ direction)
            direction /= np.linalg.norm(direction)
        found.append(direction * np.sign(direction[np.abs(direction).argmax()]))
        left = left - np.outer(left @ direction, direction)
    return np.stack(found, axis=1)


@pytest.mark.parametrize("head", ["ridge", "logistic", "centroid"])
def test_prototypes_are_class_means_before_and_weights_after(head: str) -> None:
    features, labels = rows()
    there = moment(head, features, labels)
    places = projection(there)
    linear = there.ready().linear
    unit = [row / np.linalg.norm(row) for row in np.sqrt(features.astype(float)) ** (2 * linear.power)]
    space = np.array([(row - linear.shift) / np.linalg.norm(row - linear.shift) for row in unit])
    middle = space.mean(axis=0)
    plane = oracle_plane(space - middle)
    for place, row in zip(places.photos, space, strict=True):
        np.testing.assert_allclose(place.place, (row - middle) @ plane, atol=1e-5)
    for number, label in enumerate("abc"):
        mean = space[[each == label for each in labels]].mean(axis=0)
        mean /= np.linalg.norm(mean)
        weight = linear.weight[:, number] / np.linalg.norm(linear.weight[:, number])
        np.testing.assert_allclose(places.prototypes[number].before, (mean - middle) @ plane, atol=1e-5)
        np.testing.assert_allclose(places.prototypes[number].after, (weight - middle) @ plane, atol=1e-5)
    moved = max(np.abs(np.subtract(each.after, each.before)).max() for each in places.prototypes)
    assert moved < 1e-9 if head == "centroid" else moved > 1e-3
