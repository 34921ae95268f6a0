"""The heads against naive NumPy, row by row."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge

from fewset.classify.heads.centroid import CentroidHead
from fewset.classify.heads.logistic import LogisticHead
from fewset.classify.heads.ridge import RidgeHead
from fewset.models.regression import ridge
from tests.helpers.classifier_tasks import SHOTS, answers, task, unit


@pytest.mark.parametrize("seed", range(3))
def test_centroid(seed: int) -> None:
    rows, labels, query = (part.numpy() for part in task(seed))
    logits = answers(CentroidHead(), *task(seed)).numpy()
    for number, row in enumerate(query):
        for label in range(len(SHOTS)):
            centroid = np.mean([unit(shot) for shot in rows[labels == label]], axis=0)
            cosine = unit(row) @ unit(centroid)
            assert logits[number, label] == pytest.approx(10 * cosine)


@pytest.mark.parametrize("seed", range(3))
def test_ridge(seed: int) -> None:
    """As scikit-learn has it, on the class means at length 1 and what the shots differ from the means by."""
    rows, labels, query = (part.numpy() for part in task(seed))
    rows, query = (np.array([unit(np.sqrt(row)) for row in part]) for part in (rows, query))
    centre = np.mean([rows[labels == label].mean(axis=0) for label in range(len(SHOTS))], axis=0)
    rows, query = (np.array([unit(row - centre) for row in part]) for part in (rows, query))
    means = np.array([rows[labels == label].mean(axis=0) for label in range(len(SHOTS))])
    weights = [1.0] * len(SHOTS) + [np.mean(SHOTS) / SHOTS[label] for label in labels]
    known = np.concatenate([[unit(mean) for mean in means], rows - means[labels]])
    targets = np.concatenate([np.eye(len(SHOTS)), np.zeros((len(rows), len(SHOTS)))])
    regression = Ridge(alpha=1.0, fit_intercept=False).fit(known, targets, sample_weight=weights)
    scale = 15 * np.sqrt(np.mean(SHOTS))
    np.testing.assert_allclose(
        answers(RidgeHead(), *task(seed)).numpy(), scale * regression.predict(query), atol=1e-9
    )


def test_at_one_shot_it_is_the_ridge_regression_on_the_shots() -> None:
    rows, labels, query = (part.numpy() for part in task(0, shots=(1, 1, 1, 1)))
    rows, query = (np.array([unit(np.sqrt(row)) for row in part]) for part in (rows, query))
    rows, query = (np.array([unit(row - rows.mean(axis=0)) for row in part]) for part in (rows, query))
    regression = Ridge(alpha=1.0, fit_intercept=False).fit(rows, np.eye(4)[labels])
    found = answers(RidgeHead(), *task(0, shots=(1, 1, 1, 1))).numpy()
    np.testing.assert_allclose(found, 15 * regression.predict(query), atol=1e-9)


def test_ridge_is_the_same_in_either_space() -> None:
    """More rows than numbers, and fewer: the two ways of solving it."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(2, 17, 11, generator=generator, dtype=torch.float64)
    members = torch.eye(3, dtype=torch.float64)[torch.arange(17) % 3].expand(2, -1, -1)
    strength = torch.tensor([0.3, 2.0], dtype=torch.float64)
    wide = torch.cat([rows, torch.zeros(2, 17, 8)], dim=2)
    torch.testing.assert_close(ridge(wide, members, strength)[:, :11], ridge(rows, members, strength))


@pytest.mark.parametrize("shots", [SHOTS, (2, 5), (1, 1), (13, 11, 17)])
def test_logistic(shots: tuple[int, ...]) -> None:
    rows, labels, query = (part.numpy() for part in task(0, shots=shots))
    rows, query = (np.array([unit(np.sqrt(row)) for row in part]) for part in (rows, query))
    regression = LogisticRegression(C=10, max_iter=1000, tol=1e-8).fit(rows, labels)
    logits = answers(LogisticHead(), *task(0, shots=shots))
    np.testing.assert_allclose(logits.softmax(-1).numpy(), regression.predict_proba(query), atol=1e-4)
