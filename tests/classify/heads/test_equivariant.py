"""The equivariant head against a loop in NumPy, and its logistic regression against scikit-learn's."""

import json
from dataclasses import replace
from math import exp, log, sqrt

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from fewset.classify.heads.equivariant import (
    SHIPPED,
    STEPS,
    EquivariantHead,
    Scalars,
    alikeness,
    shipped_scalars,
)
from fewset.models.regression import class_means, episode_membership, logistic_regression, membership
from tests.helpers.classifier_tasks import SHOTS, answers, prepare, task, unit

ODD = Scalars(
    centring=(0.93, 0.71),
    penalty=1.7,
    strength=(0.2, 0.3, -0.1, -0.6),
    mix=(0.3, -0.2, 0.4, 0.5),
    scale=(2.1, 0.3, 0.1, -0.3),
)


def softmax(values: np.ndarray) -> np.ndarray:
    raised = np.exp(values - values.max())
    return raised / raised.sum()


def naive_logistic(
    rows: np.ndarray, labels: np.ndarray, way: int, inverse_strength: float, steps: int = STEPS
) -> np.ndarray:
    """The steps on the weights themselves, row by row; one of them minimises the bound of the loss."""
    counts = np.bincount(labels)
    balance = counts.mean() / counts[labels]
    bound = np.eye(rows.shape[1])
    for weight, row in zip(balance, rows, strict=True):
        bound += inverse_strength / 2 * weight * np.outer(row, row)
    found = ahead = np.zeros((rows.shape[1], way))
    pace = 1.0
    for _ in range(steps):
        gradient = ahead.copy()
        for weight, row, label in zip(balance, rows, labels, strict=True):
            gradient -= inverse_strength * weight * np.outer(row, np.eye(way)[label] - softmax(row @ ahead))
        following = ahead - np.linalg.inv(bound) @ gradient
        faster = (1 + sqrt(1 + 4 * pace**2)) / 2
        ahead = following + (pace - 1) / faster * (following - found)
        found, pace = following, faster
    return found


def naive(scalars: Scalars, rows: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
    way = labels.max() + 1
    counts = np.bincount(labels)
    shots = counts.mean()
    rows, query = (np.array([unit(np.sqrt(row)) for row in part]) for part in (rows, query))
    means = [rows[labels == label].mean(axis=0) for label in range(way)]
    centre = np.mean(means, axis=0)
    alike = np.mean([means[one] @ means[two] for one in range(way) for two in range(one)]) - 0.5
    described = (1, log(way / 10), log(shots / 3), alike)

    def value(name: str) -> float:
        return sum(weight * part for weight, part in zip(getattr(scalars, name), described, strict=True))

    broad, narrow = scalars.centring
    share = broad + (narrow - broad) / (1 + exp(-100 * alike))
    rows, query = (np.array([unit(row - share * centre) for row in part]) for part in (rows, query))
    strength = exp(value("strength"))
    balance = np.diag(shots / counts[labels])
    inverse = np.linalg.inv(rows.T @ balance @ rows + strength * np.eye(rows.shape[1]))
    regression = inverse @ rows.T @ balance @ np.eye(way)[labels] * (strength + shots / 2) / sqrt(shots)
    logistic = naive_logistic(rows, labels, way, exp(scalars.penalty))
    logistic = logistic / sqrt(np.mean([column @ column for column in logistic.T]))
    second = (1 - 1 / shots) * (1 - 1 / (1 + exp(-value("mix"))))
    return exp(value("scale")) * (query @ ((1 - second) * regression + second * logistic))


@pytest.mark.parametrize("scalars", [Scalars(), ODD])
@pytest.mark.parametrize("shots", [SHOTS, (3, 3, 3, 3), (1, 2), (1, 1, 1), (11, 13, 17)])
def test_as_the_loop_has_it(scalars: Scalars, shots: tuple[int, ...]) -> None:
    """Unequal shots, one shot, and more rows than numbers."""
    rows, labels, query = task(0, shots=shots)
    np.testing.assert_allclose(
        answers(EquivariantHead(scalars), rows, labels, query).numpy(),
        naive(scalars, rows.numpy(), labels.numpy(), query.numpy()),
        atol=1e-10,
    )


def test_how_alike_classes_are_hangs_neither_on_the_ways_nor_on_the_shots() -> None:
    """Rows of a domain: what all share, what a class shares, and the rest, at right angles."""
    parts = torch.eye(1000, dtype=torch.float64)
    for way, shot in ((2, 1), (5, 1), (5, 7), (31, 3)):
        classes = parts[1 : way + 1].repeat_interleave(shot, dim=0)
        rows = (0.6**0.5 * parts[0] + 0.3**0.5 * classes + 0.1**0.5 * parts[-way * shot :]).unsqueeze(0)
        members = membership(torch.arange(way).repeat_interleave(shot), way, rows.dtype).unsqueeze(0)
        assert alikeness(class_means(rows, members)).item() == pytest.approx(0.6)


def test_at_one_shot_it_is_a_ridge_regression() -> None:
    rows, labels, query = task(0, shots=(1, 1, 1, 1))
    first, second = (
        answers(EquivariantHead(replace(ODD, mix=mix)), rows, labels, query)
        for mix in (ODD.mix, (-9.0, 0.0, 0.0, 0.0))
    )
    torch.testing.assert_close(first, second)
    rows, labels, query = task(0, shots=(2, 2, 2, 2))
    first, second = (
        answers(EquivariantHead(replace(ODD, mix=mix)), rows, labels, query)
        for mix in (ODD.mix, (-9.0, 0.0, 0.0, 0.0))
    )
    assert (first - second).abs().max() > 0.01


@pytest.mark.parametrize("dim", [7, 31])
def test_the_logistic_regression_ends_where_scikit_learns_does(dim: int) -> None:
    rows, labels, _ = task(1, dim, (3, 5, 2, 4))
    rows = torch.nn.functional.normalize(rows - rows.mean(dim=0), dim=-1)
    members = membership(labels, 4, rows.dtype)
    found = logistic_regression(rows.unsqueeze(0), members.unsqueeze(0), torch.tensor(7.0).double(), 2000)
    reference = LogisticRegression(C=7.0, fit_intercept=False, tol=1e-10, max_iter=10_000)
    counts = np.bincount(labels)
    reference.fit(rows.numpy(), labels.numpy(), sample_weight=(counts.mean() / counts)[labels])
    np.testing.assert_allclose(found[0].T.numpy(), reference.coef_, atol=1e-4)


def test_many_tasks_at_once() -> None:
    """Episodes of three tasks, a mask on one of them."""
    generator = torch.Generator().manual_seed(0)
    support = torch.rand(3, 5, 7, 11, generator=generator, dtype=torch.float64)
    query = torch.rand(3, 13, 11, generator=generator, dtype=torch.float64)
    mask = torch.ones(3, 5, 7, dtype=torch.bool)
    mask[1, 2, 3:] = False
    head = EquivariantHead(ODD)
    solution = head.solve(prepare(head, support.flatten(1, 2)), episode_membership(support, mask))
    logits = solution.logits(prepare(head, query))
    for number in range(3):
        rows, labels = support[number][mask[number]], torch.nonzero(mask[number])[:, 0]
        expected = naive(ODD, rows.numpy(), labels.numpy(), query[number].numpy())
        np.testing.assert_allclose(logits[number].numpy(), expected, atol=1e-10)


@pytest.mark.parametrize("way", [2, 101, 1000])
def test_from_two_to_a_thousand_classes(way: int) -> None:
    generator = np.random.default_rng(0)
    means = generator.exponential(size=(way, 53))
    labels = np.arange(way).repeat(2)
    rows = torch.from_numpy(means[labels] * generator.uniform(0.8, 1.2, size=(2 * way, 53)))
    logits = answers(EquivariantHead(), rows, torch.from_numpy(labels), torch.from_numpy(means))
    assert (logits.argmax(dim=1) == torch.arange(way)).float().mean() > 0.99


def test_the_shipped_scalars_are_learned_and_few() -> None:
    values = torch.cat([value.reshape(-1) for value in shipped_scalars().tensors().values()])
    assert values.isfinite().all()
    assert len(values) == 15
    record = json.loads(SHIPPED.read_text())
    assert {"tables", "seed", "steps", "command", "commit", "versions"} <= set(record)
    assert shipped_scalars() != Scalars()
