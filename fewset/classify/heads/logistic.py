"""Logistic regression, by scikit-learn."""

import warnings

import numpy as np
from jaxtyping import Float

from fewset.classify.heads import Solution, register_classifier_head

INVERSE_STRENGTH = 10.0
_TOLERANCE = 1e-6
_MOST_STEPS = 1000


@register_classifier_head("logistic")
class LogisticHead:
    """Square root, length 1; then logistic regression with scikit-learn's C = 10."""

    power = 0.5
    usual_temperature = (0.45, 0.13, 3.7)

    def solve(self, rows: Float[np.ndarray, "T S D"], membership: Float[np.ndarray, "T S N"]) -> Solution:
        solved = [_solve(*task) for task in zip(rows.astype(np.float64), membership, strict=True)]
        weight, bias = (np.stack(part).astype(rows.dtype) for part in zip(*solved, strict=True))
        return Solution(np.zeros_like(rows[:, 0]), weight, bias)


def _solve(
    rows: Float[np.ndarray, "S D"], members: Float[np.ndarray, "S N"]
) -> tuple[Float[np.ndarray, "D N"], Float[np.ndarray, " N"]]:
    """The weights and biases that minimise `C Σ cross-entropy + |weights|² / 2`.

    The bias has no penalty and the penalty does not change under a rotation, so the regression takes place
    around the mean of the rows and in their span.
    """
    from sklearn.linear_model import LogisticRegression

    counts = members.sum(axis=-1) > 0
    rows, members = rows[counts], members[counts]
    mean = rows.mean(axis=0)
    basis, factor = np.linalg.qr((rows - mean).T)
    regression = LogisticRegression(C=INVERSE_STRENGTH, max_iter=_MOST_STEPS, tol=_TOLERANCE)
    with warnings.catch_warnings():
        # One row a class is expected here; scikit-learn asks whether that is a regression.
        warnings.filterwarnings("ignore", message="The number of unique classes")
        regression.fit(factor.T, members.argmax(axis=-1))
    weight, bias = regression.coef_, regression.intercept_
    if members.shape[1] == 2:  # scikit-learn has one row for both
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    found = basis @ weight.T
    return found, bias - mean @ found
