"""Probabilities that mean what they say: one number that the logits are divided by."""

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

PRIOR = 2.0
"""How strongly the temperature is held towards 1, in photos."""
_WIDEST = 4.0
"""The logarithm of the temperature stays within ± this."""


def left_out_temperature(
    logits: Float[np.ndarray, "n N"], labels: Int[np.ndarray, "n"], prior: float = PRIOR
) -> float:
    """The temperature that makes the left-out photos' answers most likely, held towards 1.

    Where all of them are right, the likeliest temperature is 0, which a handful of photos does not warrant:
    its logarithm is drawn to 0 like by `prior` photos' worth of evidence. Without any it is 1.
    """

    def loss(log_temperature: float) -> float:
        scaled = logits * np.exp(-log_temperature)
        wrong = logsumexp(scaled, axis=1) - np.take_along_axis(scaled, labels[:, None], axis=1)[:, 0]
        return float(wrong.sum() + prior * log_temperature**2 / 2)

    if not len(labels):
        return 1.0
    best = minimize_scalar(loss, bounds=(-_WIDEST, _WIDEST), method="bounded")
    return float(np.exp(best.x))
