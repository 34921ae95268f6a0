"""Logistic regression: small tasks many at once, large ones by scikit-learn. Both find the same minimum."""

import warnings

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fewset.classify.heads import Solution, register_classifier_head

INVERSE_STRENGTH = 10.0
_SMALL = 2**10  # rows times classes below which steps of many tasks at once are quicker than scikit-learn's
_TOLERANCE = 1e-6
_MOST_STEPS = 1000


@register_classifier_head("logistic")
class LogisticHead:
    """Square root, length 1; then logistic regression with scikit-learn's C = 10."""

    power = 0.5

    def solve(self, rows: Float[Tensor, "T S D"], membership: Float[Tensor, "T S N"]) -> Solution:
        exact, members = rows.double(), membership.double()
        counts = members.sum(dim=-1, keepdim=True)
        # The bias is not held, so that the rows may be moved, and the penalty does not see a rotation: the
        # regression takes place around the rows' mean and in their span.
        mean = (exact * counts).sum(dim=1, keepdim=True) / counts.sum(dim=1, keepdim=True)
        inside, basis = (exact - mean) * counts, None
        if rows.shape[1] < rows.shape[2]:
            basis, factor = torch.linalg.qr(inside.mT)
            inside = factor.mT
        regression = _together if members[0].numel() < _SMALL else _one_by_one
        weight, bias = regression(inside, members)
        weight = weight if basis is None else basis @ weight
        bias = bias - (mean @ weight).squeeze(1)
        return Solution(rows.new_zeros(rows.shape[0], rows.shape[2]), weight.to(rows), bias.to(rows))


def _together(
    rows: Float[Tensor, "T S d"], members: Float[Tensor, "T S N"]
) -> tuple[Float[Tensor, "T d N"], Float[Tensor, "T N"]]:
    """The weights and biases that minimise `C Σ cross-entropy + |weights|² / 2`.

    By steps that are scaled with a bound of the curvature (Böhning, 1992), the same for all classes, and by
    Nesterov's momentum, which starts anew where it leads uphill. A task that is done stays as it is.
    """
    counts = members.sum(dim=-1, keepdim=True)
    extended = torch.cat([rows, counts], dim=2)  # the last column is for the bias
    held = rows.new_ones(extended.shape[2], 1)
    if members.shape[2] == 2:
        held *= 2  # scikit-learn then has one row of weights, the difference of these
    held[-1] = 0
    bound = torch.diag(held[:, 0]) + INVERSE_STRENGTH / 2 * extended.mT @ extended
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(bound))

    weight = ahead = rows.new_zeros(len(rows), extended.shape[2], members.shape[2])
    age, active = rows.new_zeros(len(rows), 1, 1), torch.ones_like(counts[:, :1], dtype=torch.bool)
    for _ in range(_MOST_STEPS):
        errors = (extended @ ahead).softmax(dim=-1) * counts - members
        step = inverse @ (held * ahead + INVERSE_STRENGTH * extended.mT @ errors)
        following = torch.where(active, ahead - step, weight)
        move = following - weight
        uphill = (step * move).sum(dim=(1, 2), keepdim=True) > 0
        age = torch.where(uphill, 0, age + 1)
        weight, ahead = following, following + age / (age + 3) * move
        active = active & (step.abs().amax(dim=(1, 2), keepdim=True) > _TOLERANCE)
        if not active.any():
            break
    return weight[:, :-1], weight[:, -1]


def _one_by_one(
    rows: Float[Tensor, "T S d"], members: Float[Tensor, "T S N"]
) -> tuple[Float[Tensor, "T d N"], Float[Tensor, "T N"]]:
    """The same by scikit-learn."""
    solved = [_solve(*task) for task in zip(rows.cpu(), members.cpu(), strict=True)]
    weight, bias = (torch.stack(part).to(rows) for part in zip(*solved, strict=True))
    return weight, bias


def _solve(
    rows: Float[Tensor, "S d"], members: Float[Tensor, "S N"]
) -> tuple[Float[Tensor, "d N"], Float[Tensor, " N"]]:
    from sklearn.linear_model import LogisticRegression

    counts = members.sum(dim=-1) > 0
    regression = LogisticRegression(C=INVERSE_STRENGTH, max_iter=1000, tol=_TOLERANCE)
    with warnings.catch_warnings():
        # One row a class is what this is for; scikit-learn wonders whether that is a regression.
        warnings.filterwarnings("ignore", message="The number of unique classes")
        regression.fit(rows[counts].numpy(), members[counts].argmax(dim=-1).numpy())
    weight, bias = regression.coef_, regression.intercept_
    if members.shape[1] == 2:  # scikit-learn has one row for both
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    return torch.from_numpy(weight).mT, torch.from_numpy(bias)
