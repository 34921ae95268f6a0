"""A whole folder at once: the unlabelled photos help to find the middle of each class (soft k-means)."""

import warnings

import numpy as np
from jaxtyping import Float, Int
from scipy.special import softmax

from fewset.classify.linear import unit_rows

STEPS = 5
TEMPERATURE = 1 / 15
ADVISED_BELOW = 5
"""Shots a class. With so many and more it measured as no gain, or a loss."""


def warn_if_not_advised(shots: Int[np.ndarray, " N"]) -> None:
    """Warn where the classes have so many labelled photos that the others do not help."""
    mean = shots.mean()
    if mean >= ADVISED_BELOW:
        warnings.warn(
            f"together is not advised with {mean:.3g} photos a class: from {ADVISED_BELOW} on it gains "
            "nothing, or loses",
            stacklevel=3,
        )


def probabilities_together(
    rows: Float[np.ndarray, "m D"],
    support: Float[np.ndarray, "n D"],
    labels: Int[np.ndarray, " n"],
    steps: int = STEPS,
    temperature: float = TEMPERATURE,
) -> Float[np.ndarray, "m N"]:
    """Probabilities of unlabelled rows, all of them taken into account; both kinds of rows are prepared.

    Each step gives every unlabelled row to the classes by softmax(cosine / temperature), and makes the
    prototype of a class anew of its shots, which count 1 each, and of the shares that it was given. The
    cosines are around the mean of the class means.
    """
    members = np.eye(labels.max() + 1)[labels]
    means = (members / members.sum(axis=0)).T @ support
    rows, support = unit_rows(rows - means.mean(axis=0)), unit_rows(support - means.mean(axis=0))
    labelled = members.T @ support
    prototypes = unit_rows(labelled)
    for _ in range(steps):
        share = softmax(rows @ prototypes.T / temperature, axis=1)
        prototypes = unit_rows(labelled + share.T @ rows)
    return np.asarray(softmax(rows @ prototypes.T / temperature, axis=1))
