"""Logistic regression, by scikit-learn."""

import warnings

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fewset.classify.heads import Solution, register_classifier_head

INVERSE_STRENGTH = 10.0


@register_classifier_head("logistic")
class LogisticHead:
    """Square root, length 1; then logistic regression with scikit-learn's C = 10, one task after another."""

    power = 0.5

    def solve(self, rows: Float[Tensor, "T S D"], membership: Float[Tensor, "T S N"]) -> Solution:
        solved = [_solve(*task) for task in zip(rows.cpu(), membership.cpu(), strict=True)]
        weight, bias = (torch.stack(part).to(rows) for part in zip(*solved, strict=True))
        return Solution(rows.new_zeros(rows.shape[0], rows.shape[2]), weight, bias)


def _solve(
    rows: Float[Tensor, "S D"], membership: Float[Tensor, "S N"]
) -> tuple[Float[Tensor, "D N"], Float[Tensor, "N"]]:
    from sklearn.linear_model import LogisticRegression

    counts = membership.sum(dim=-1) > 0
    rows, labels = rows[counts], membership[counts].argmax(dim=-1).numpy()
    # The penalty does not see a rotation, so the regression takes place in the span of the rows.
    basis = torch.linalg.qr(rows.mT.double()).Q if len(rows) < rows.shape[1] else None
    inside = rows.double() if basis is None else rows.double() @ basis
    regression = LogisticRegression(C=INVERSE_STRENGTH, max_iter=1000, tol=1e-6)
    with warnings.catch_warnings():
        # One row a class is what this is for; scikit-learn wonders whether that is a regression.
        warnings.filterwarnings("ignore", message="The number of unique classes")
        regression.fit(inside.numpy(), labels)
    weight, bias = regression.coef_, regression.intercept_
    if membership.shape[1] == 2:  # scikit-learn has one row for both
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    learned = torch.from_numpy(weight).mT
    return learned if basis is None else basis @ learned, torch.from_numpy(bias)
