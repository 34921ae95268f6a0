"""The heads against naive NumPy, row by row."""

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression, Ridge

from fewset.classify.heads import class_means, find_classifier_head, membership
from fewset.classify.heads.centroid import CentroidHead
from fewset.classify.heads.logistic import LogisticHead
from fewset.classify.heads.ridge import RidgeHead, ridge_weights, row_balance
from fewset.models import regression
from tests.helpers.classifier_tasks import SHOTS, answers, task, unit


@pytest.mark.parametrize("seed", range(3))
def test_centroid(seed: int) -> None:
    rows, labels, query = task(seed)
    logits = answers(CentroidHead(), *task(seed))
    for number, row in enumerate(query):
        for label in range(len(SHOTS)):
            centroid = np.mean([unit(shot) for shot in rows[labels == label]], axis=0)
            cosine = unit(row) @ unit(centroid)
            assert logits[number, label] == pytest.approx(10 * cosine)


@pytest.mark.parametrize("seed", range(3))
def test_ridge(seed: int) -> None:
    """As scikit-learn has it, on the class means at length 1 and what the shots differ from the means by."""
    rows, labels, query = task(seed)
    rows, query = (np.array([unit(np.sqrt(row)) for row in part]) for part in (rows, query))
    centre = np.mean([rows[labels == label].mean(axis=0) for label in range(len(SHOTS))], axis=0)
    rows, query = (np.array([unit(row - centre) for row in part]) for part in (rows, query))
    means = np.array([rows[labels == label].mean(axis=0) for label in range(len(SHOTS))])
    weights = [1.0] * len(SHOTS) + [np.mean(SHOTS) / SHOTS[label] for label in labels]
    known = np.concatenate([[unit(mean) for mean in means], rows - means[labels]])
    targets = np.concatenate([np.eye(len(SHOTS)), np.zeros((len(rows), len(SHOTS)))])
    solved = Ridge(alpha=1.0, fit_intercept=False).fit(known, targets, sample_weight=weights)
    scale = 15 * np.sqrt(np.mean(SHOTS))
    np.testing.assert_allclose(answers(RidgeHead(), *task(seed)), scale * solved.predict(query), atol=1e-9)


def test_at_one_shot_it_is_the_ridge_regression_on_the_shots() -> None:
    rows, labels, query = task(0, shots=(1, 1, 1, 1))
    rows, query = (np.array([unit(np.sqrt(row)) for row in part]) for part in (rows, query))
    rows, query = (np.array([unit(row - rows.mean(axis=0)) for row in part]) for part in (rows, query))
    solved = Ridge(alpha=1.0, fit_intercept=False).fit(rows, np.eye(4)[labels])
    found = answers(RidgeHead(), *task(0, shots=(1, 1, 1, 1)))
    np.testing.assert_allclose(found, 15 * solved.predict(query), atol=1e-9)


@pytest.mark.parametrize("dim", [11, 19])
def test_the_parts_of_ridge_are_those_of_the_heads_of_models(dim: int) -> None:
    """More rows than dimensions, and fewer: the two ways of solving it."""
    generator = np.random.default_rng(0)
    rows, members = generator.normal(size=(2, 17, dim)), membership(np.arange(17) % 5 % 3, 3)
    members = np.stack([members, members * (np.arange(17) != 4)[:, None]])
    in_torch = torch.from_numpy(rows), torch.from_numpy(members)
    np.testing.assert_allclose(class_means(rows, members), regression.class_means(*in_torch).numpy())
    np.testing.assert_allclose(row_balance(members), regression.row_balance(in_torch[1]).numpy())
    targets = generator.normal(size=(17, 3))
    expected = regression.ridge_weights(
        in_torch[0], torch.from_numpy(targets).expand(2, -1, -1), torch.full((2,), 0.7, dtype=torch.float64)
    )
    np.testing.assert_allclose(ridge_weights(rows, targets, 0.7), expected.numpy(), atol=1e-12)


def test_ridge_is_the_same_in_either_space() -> None:
    """More rows than numbers, and fewer: the two ways of solving it."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(2, 17, 11, generator=generator, dtype=torch.float64)
    members = torch.eye(3, dtype=torch.float64)[torch.arange(17) % 3].expand(2, -1, -1)
    strength = torch.tensor([0.3, 2.0], dtype=torch.float64)
    wide = torch.cat([rows, torch.zeros(2, 17, 8)], dim=2)
    torch.testing.assert_close(
        regression.ridge(wide, members, strength)[:, :11], regression.ridge(rows, members, strength)
    )


@pytest.mark.parametrize("shots", [SHOTS, (2, 5), (1, 1), (13, 11, 17)])
def test_logistic(shots: tuple[int, ...]) -> None:
    rows, labels, query = task(0, shots=shots)
    rows, query = (np.array([unit(np.sqrt(row)) for row in part]) for part in (rows, query))
    solved = LogisticRegression(C=10, max_iter=1000, tol=1e-8).fit(rows, labels)
    logits = answers(LogisticHead(), *task(0, shots=shots))
    np.testing.assert_allclose(softmax(logits, axis=-1), solved.predict_proba(query), atol=1e-4)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("centroid", [7.951170309, 2.296411748, 1.735840797, 4.353442664, 2.923956697]),
        ("logistic", [0.486849024, -0.599150699, -0.675433246, 0.461554692, 0.326180229]),
        ("ridge", [5.508840061, -3.413582435, -3.136790429, -0.750444842, 0.070936793]),
    ],
)
def test_the_logits_are_those_of_earlier_versions(name: str, expected: list[float]) -> None:
    """Which computed them with torch."""
    found = answers(find_classifier_head(name), *task(0))[0]
    np.testing.assert_allclose(found, expected, atol=1e-5 if name == "logistic" else 1e-8)
