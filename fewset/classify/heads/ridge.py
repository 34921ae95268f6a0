"""Ridge regression to the classes, in closed form."""

import numpy as np
from jaxtyping import Float

from fewset.classify.heads import Solution, class_means, register_classifier_head, unit_rows

STRENGTH = 1.0
SCALE = 15.0
"""The factor of the logits, so that probabilities are about right before the temperature is learned.

At K shots it is √K times as large, which was chosen by the calibration error on validation classes.
"""


@register_classifier_head("ridge")
class RidgeHead:
    """Square root, length 1, less the support's mean, length 1; then ridge regression of strength 1.

    Its rows are the class means at length 1, each with the target of its class, and what the shots differ
    from their class's mean by, with the target 0. At one shot that is the ridge regression on the shots. With
    more it is a little ahead of that one where classes are many: 0.7 to 0.9 points on validation classes of
    CUB at 50-way 5-shot, 0.2 to 0.3 at 20-way, and level on those of miniImageNet (-0.1 to +0.1).
    """

    power = 0.5
    usual_temperature = (0.45, 0.52, 4.2)

    def solve(self, rows: Float[np.ndarray, "T S D"], membership: Float[np.ndarray, "T S N"]) -> Solution:
        shots, shift = centred(rows, membership)
        means = class_means(shots, membership)
        differences = (shots - membership @ means) * row_balance(membership)
        way = membership.shape[2]
        known = np.concatenate([unit_rows(means), differences], axis=1)
        targets = np.eye(known.shape[1], way, dtype=rows.dtype)
        scale = SCALE * np.sqrt(membership.sum(axis=(1, 2)) / way)
        return Solution(
            shift=shift,
            weight=scale[:, None, None] * ridge_weights(known, targets, STRENGTH),
            bias=np.zeros_like(membership[:, 0]),
        )


def centred(
    rows: Float[np.ndarray, "T S D"], members: Float[np.ndarray, "T S N"]
) -> tuple[Float[np.ndarray, "T S D"], Float[np.ndarray, "T D"]]:
    """The rows less their mean, at length 1, and that mean.

    Rows that do not count are 0. The mean is that of the class means, so that a class with many shots is not
    the origin.
    """
    shift = class_means(rows, members).mean(axis=1)
    counts = members.sum(axis=-1, keepdims=True)
    return unit_rows(rows - shift[:, None]) * counts, shift


def row_balance(members: Float[np.ndarray, "T S N"]) -> Float[np.ndarray, "T S 1"]:
    """The root of each row's weight, with which all classes count alike; 0 for rows that do not count."""
    shots = members.sum(axis=1, keepdims=True)
    return np.asarray(np.sqrt(members @ (shots.mean(axis=-1, keepdims=True) / shots).mT))


def ridge_weights(
    rows: Float[np.ndarray, "T S D"], targets: Float[np.ndarray, "S N"], strength: float
) -> Float[np.ndarray, "T D N"]:
    """The W that minimise `|rows W - targets|² + strength |W|²`, solved in as few dimensions as there are."""
    dual = rows.shape[1] <= rows.shape[2]
    gram = rows @ rows.mT if dual else rows.mT @ rows
    gram += strength * np.eye(gram.shape[-1], dtype=rows.dtype)
    if dual:
        return np.asarray(rows.mT @ np.linalg.solve(gram, targets))
    return np.asarray(np.linalg.solve(gram, rows.mT @ targets))
