"""The choice of photos to label next: those that best stand for the ones the classifier is unsure about.

A set `C` of chosen photos is worth

    f(C) = Σ_i u_i max(0, max_{j in C or labelled} s_ij)

over all unlabelled photos `i`: facility location (Wei, Iyer and Bilmes, "Submodularity in Data Subset
Selection and Active Learning", ICML 2015), weighted by how unsure the classifier is. `u_i` is 0.2 plus one
less the margin between the two likeliest classes; the 0.2 is for photos of which the classifier is sure and
wrong. `s_ij` is the cosine of two photos around the mean of the classes. So a photo is worth labelling if the
classifier is unsure about many like it, and nothing that is labelled or chosen is like it: near copies add
nothing. Photos are chosen one after another, always the one that adds most, which reaches at least 63 % of
the best possible value.

Nothing is random, and the order of the photos does not matter, except between copies. Up to `MOST` photos
this is exact. Of more, the sum is over `MOST` of them, evenly spaced by uncertainty, and the `MOST` that add
most by themselves can be chosen.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Float32, Int

from fewset.classify.heads import prepared, unit_rows
from fewset.classify.model import Learned

POWER = 0.5
"""Of the features; their roots are what the default head compares too."""
LEAST_WEIGHT = 0.2
MOST = 4000
"""Photos whose cosines to each other are in memory at once."""
_BLOCK = 1000
_ROUNDING = 1e-6  # of the whole weight: a copy of a photo that counts already adds no more than this


def next_to_label(
    learned: Learned, features: Float32[np.ndarray, "n D"], count: int
) -> Int[np.ndarray, " c"]:
    """The indices of the photos to label next, the most useful first.

    There are `count` of them, or fewer if all others are copies of labelled or chosen ones.
    """
    centre = _centre(learned)
    labelled = _placed(learned.support.features, centre)
    rows = np.empty_like(features)
    weights, covered = np.empty(len(rows), np.float32), np.empty(len(rows), np.float32)
    for block in _blocks(len(rows)):
        weights[block] = uncertainty(learned.probabilities(features[block]))
        rows[block] = _placed(features[block], centre)
        covered[block] = (rows[block] @ labelled.T).max(axis=1).clip(min=0)
    summed = _evenly_spaced(weights, MOST)
    weights, covered = weights[summed], covered[summed]
    counted = rows[summed]
    alone = np.empty(len(rows), np.float32)
    for block in _blocks(len(rows)):
        alone[block] = _gains(counted @ rows[block].T, weights, covered)
    possible = np.sort(np.argsort(-alone, kind="stable")[:MOST])
    chosen = _greedy(counted @ rows[possible].T, weights, covered, count)
    return np.asarray(possible[chosen])


def uncertainty(probabilities: Float[np.ndarray, "m N"]) -> Float[np.ndarray, " m"]:
    """How much each photo counts: from 0.2, where the classifier is sure of a class, to 1.2."""
    second, first = np.sort(probabilities, axis=1)[:, -2:].T
    return np.asarray(LEAST_WEIGHT + 1 - (first - second))


def _centre(learned: Learned) -> Float[np.ndarray, " D"]:
    """The mean of the class means of the labelled photos."""
    rows, labels = prepared(learned.support.features, POWER), learned.support.labels
    means = [rows[labels == label].mean(axis=0) for label in np.unique(labels)]
    return np.asarray(np.mean(means, axis=0))


def _placed(
    features: Float32[np.ndarray, "m D"], centre: Float[np.ndarray, " D"]
) -> Float32[np.ndarray, "m D"]:
    """The rows around the centre at length 1: their products are the cosines."""
    return unit_rows(prepared(features, POWER) - centre).astype(np.float32)


def _blocks(count: int) -> Iterator[slice]:
    return (slice(first, min(first + _BLOCK, count)) for first in range(0, count, _BLOCK))


def _evenly_spaced(values: Float32[np.ndarray, " n"], most: int) -> Int[np.ndarray, " m"]:
    """The indices of at most `most` values, evenly spaced in their order by size."""
    order = np.argsort(values, kind="stable")
    if len(order) > most:
        order = order[np.linspace(0, len(order) - 1, most).round().astype(np.int64)]
    return np.sort(order)


def _gains(
    cosines: Float32[np.ndarray, "m c"],
    weights: Float32[np.ndarray, " m"],
    covered: Float32[np.ndarray, " m"],
) -> Float32[np.ndarray, " c"]:
    """What each of `c` photos would add to the sum over `m` photos."""
    return np.asarray(weights @ (cosines - covered[:, None]).clip(min=0))


def _greedy(
    cosines: Float32[np.ndarray, "m c"],
    weights: Float32[np.ndarray, " m"],
    covered: Float32[np.ndarray, " m"],
    count: int,
) -> list[int]:
    """The columns that add most, one after another."""
    chosen: list[int] = []
    while len(chosen) < count:
        gains = _gains(cosines, weights, covered)
        best = int(gains.argmax())
        if gains[best] <= _ROUNDING * weights.sum():
            break
        chosen.append(best)
        covered = np.maximum(covered, cosines[:, best])
    return chosen
