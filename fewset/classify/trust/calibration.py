"""The interval of the expected accuracy, and the temperature by which the logits are divided."""

from math import sqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

Z95 = 1.959963984540054
DEPENDENCE = 2.0
"""The test fits see almost the same photos, so their answers are dependent and count for fewer. Divided by
this, the interval held the accuracy on new photos in 93 to 98 % of tasks at 5 shots; else in 83 to 92 %."""

ODDS_ON_A_NEW_OCCASION = 4.0
"""By how much the odds of an error may rise on an occasion of which there is no labelled photo.

Of sketches, where the shots of a class are of one photo and the queries of others, they are 2 to 4 times as
high on average; with this factor 99 to 100 % of the intervals held the accuracy at 3 and 5 shots, with 3 it
was 92 to 100 %."""
SURER_ON_ONE_OCCASION = 2.0
"""How much too small the temperature is where all photos of a class are of one occasion. On the same sketches
the calibration error is 2 to 5 % with this factor, and 6 to 18 without it."""

CURVE = 0.35
"""Errors fall with the shots K like 1 / K to this power. On validation classes of miniImageNet and CUB, on
edge drawings of them, and on groups of such drawings, powers of 0.2 to 0.6 make leave-one-out right on
average at 3 and 5 shots."""


class Interval(NamedTuple):
    low: float
    high: float


def wilson(right: float, count: float, z: float = Z95) -> Interval:
    """Wilson's 95 % interval of a share, which holds for few trials and for shares near 0 and 1."""
    share = right / count
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    low = 0.0 if right <= 0 else max(0.0, centre - half)  # at the ends, rounding would leave 1e-16
    high = 1.0 if right >= count else min(1.0, centre + half)
    return Interval(low, high)


def left_out_interval(
    right: int, count: int, groups: int | None = None, left: float = 1.0, new_occasion: bool = False
) -> Interval:
    """The interval of the accuracy on new photos, from the number of left-out ones that were right.

    Photos of one group say hardly more than one of them: `groups`, if given, are counted instead. `left` is
    the share of the photos (or groups) of a class that the test fits saw: with all of them errors are fewer.
    The upper end is that with one error fewer: one odd photo among the labelled ones is an error when it is
    left out, and does no harm otherwise. With `new_occasion` the photos are of one occasion and the new ones
    of another: the lower end allows for higher odds of an error.
    """
    tested = count if groups is None else groups
    wrong = (1 - right / count) * left**CURVE * tested
    low = wilson((tested - wrong) / DEPENDENCE, tested / DEPENDENCE).low
    high = wilson((tested - max(0.0, wrong - 1)) / DEPENDENCE, tested / DEPENDENCE).high
    return Interval(low / (low + ODDS_ON_A_NEW_OCCASION * (1 - low)) if new_occasion else low, high)


def usual_temperature(
    rows: Float[np.ndarray, "n D"], labels: Int[np.ndarray, " n"], usual: tuple[float, float, float] | None
) -> float:
    """The temperature for classes so much alike, where no photo can be left out; 1 for an unknown head.

    A head is surer than it is right where its classes are alike: the logarithm of the best temperature grows
    with the mean cosine among the class means. `usual` is a cosine, the temperature up to there, and the
    slope from there on. They were fitted for each head to tasks of 1 and 2 shots, 2 to 20 ways, random and
    related classes of miniImageNet's and CUB's validation classes, and half of Sketchy's photos and sketches:
    the probabilities at 5-way 1-shot are 8 too low to 8 too high on average of a set, with one temperature
    for all of them 15 too low to 21 too high.
    """
    if usual is None:
        return 1.0
    members = np.eye(labels.max() + 1)[labels]
    means = (members / members.sum(axis=0)).T @ rows
    cosines = means @ means.T
    alike = cosines[~np.eye(len(cosines), dtype=bool)].mean()
    start, temperature, slope = usual
    return float(temperature * np.exp(slope * max(0.0, alike - start)))


# Both were chosen on validation classes of miniImageNet and CUB, on Omniglot, and on edges of photographs, at
# 5 and 15 ways and 3 to 10 shots: the mean calibration error is 1.5 % with ridge regression on the
# shots (1.7 with a prior of 2 and no doubt) and 2.9 with centroids (3.4).
PRIOR = 1.0
"""How strongly the temperature is held towards 1, in photos."""
DOUBT = 0.1
"""Photos' worth of answers that count as wrong, whatever the left-out photos say; after Platt (1999)."""
_WIDEST = 4.0
"""The logarithm of the temperature stays within ± this."""


def left_out_temperature(
    logits: Float[np.ndarray, "n N"],
    labels: Int[np.ndarray, " n"],
    groups: int | None = None,
    prior: float = PRIOR,
    doubt: float = DOUBT,
) -> float:
    """The temperature that makes the left-out photos' answers most likely, with caution.

    Where all of them are right, the likeliest temperature is 0, which a handful of photos does not warrant.
    So `doubt` photos' worth of labels are spread evenly over all classes, which rules out 0. Its logarithm is
    drawn to 0 like by `prior` photos' worth of evidence. Without any photo it is 1.

    Where the photos are of fewer `groups`, these are the evidence, and the head, which takes each photo for
    itself, is too sure: the temperature is drawn to the square of the photos a group. That was chosen on
    groups of 5 warped edge drawings of miniImageNet's train and validation classes, where it matters little:
    the calibration error is 5.0 % instead of 5.7 with shots of 3 groups a class, 3.9 instead of 4.1 with 4.
    """
    if not len(labels):
        return 1.0
    from scipy.optimize import minimize_scalar
    from scipy.special import logsumexp

    independent = len(labels) if groups is None else groups
    weight = independent / len(labels)
    usual, share = -2 * np.log(weight), doubt / (independent + doubt)

    def loss(log_temperature: float) -> float:
        scaled = logits * np.exp(-log_temperature)
        own = np.take_along_axis(scaled, labels[:, None], axis=1)[:, 0]
        wrong = logsumexp(scaled, axis=1) - (1 - share) * own - share * scaled.mean(axis=1)
        return float(weight * wrong.sum() + prior * (log_temperature - usual) ** 2 / 2)

    best = minimize_scalar(loss, bounds=(-_WIDEST, _WIDEST), method="bounded")
    return float(np.exp(best.x))
