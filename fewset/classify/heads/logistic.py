"""Logistic regression, by scikit-learn."""

import warnings

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fewset.classify.heads import Solution, register_classifier_head

INVERSE_STRENGTH = 10.0
_TOLERANCE = 1e-6
_MOST_STEPS = 1000


@register_classifier_head("logistic")
class LogisticHead:
    """Square root, length 1; then logistic regression with scikit-learn's C = 10."""

    power = 0.5

    def solve(self, rows: Float[Tensor, "T S D"], membership: Float[Tensor, "T S N"]) -> Solution:
        solved = [_solve(*task) for task in zip(rows.double(), membership.double(), strict=True)]
        weight, bias = (torch.stack(part).to(rows) for part in zip(*solved, strict=True))
        return Solution(rows.new_zeros(rows.shape[0], rows.shape[2]), weight, bias)


def _solve(
    rows: Float[Tensor, "S D"], members: Float[Tensor, "S N"]
) -> tuple[Float[Tensor, "D N"], Float[Tensor, " N"]]:
    """The weights and biases that minimise `C Σ cross-entropy + |weights|² / 2`.

    The bias has no penalty and the penalty does not change under a rotation, so the regression takes place
    around the mean of the rows and in their span.
    """
    from sklearn.linear_model import LogisticRegression

    counts = members.sum(dim=-1) > 0
    rows, members = rows[counts].cpu(), members[counts].cpu()
    mean = rows.mean(dim=0)
    basis, factor = torch.linalg.qr((rows - mean).mT)
    regression = LogisticRegression(C=INVERSE_STRENGTH, max_iter=_MOST_STEPS, tol=_TOLERANCE)
    with warnings.catch_warnings():
        # One row a class is expected here; scikit-learn asks whether that is a regression.
        warnings.filterwarnings("ignore", message="The number of unique classes")
        regression.fit(factor.mT.numpy(), members.argmax(dim=-1).numpy())
    weight, bias = regression.coef_, regression.intercept_
    if members.shape[1] == 2:  # scikit-learn has one row for both
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    found = basis @ torch.from_numpy(weight).mT
    return found, torch.from_numpy(bias) - mean @ found
