"""None of these: a photo that is not close enough to the labelled ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
from jaxtyping import Float, Int

from fewset.classify.heads import prepared, unit_rows
from fewset.core.errors import UserError

POWER = 0.7
"""Of the features; between 0.6 and 0.8 it separates unknown classes almost equally well."""
STRENGTH = 0.5
"""Of the ridge regression; between 0.1 and 1 it separates unknown classes almost equally well."""
SHARE = 0.05
"""The default false-rejection rate: of the classes' own photos, the share that may be rejected."""


def rejected_share(reject: str | float | None) -> float | None:
    """The allowed false-rejection rate; None where no photo is rejected."""
    if reject is None or reject == "auto":
        return None if reject is None else SHARE
    if isinstance(reject, float) and 0 < reject < 1:
        return reject
    raise UserError(f"reject is {reject!r}, expected None, 'auto' or a share between 0 and 1")


@dataclass(frozen=True, eq=False)
class Closeness:
    """Labelled photos to compare new ones with. The closeness of a photo is the mean of two values:

    - its largest cosine to a labelled photo or to the prototype of a class;
    - its largest value of a ridge regression on the labelled photos, in which a class is 1 for its own photos
      and 0 for the others.

    The cosine alone is large for every photo that looks a little like many classes; the regression gives such
    a photo a small value for each. The rows are not centred: of two classes one is then always on the right
    side of the middle, whatever the photo shows.
    """

    shots: Float[np.ndarray, "n D"]
    labels: Int[np.ndarray, " n"]

    @cached_property
    def prototypes(self) -> Float[np.ndarray, "N D"]:
        """The shots of each class added up, at length 1."""
        return unit_rows(self._members.T @ self.shots)

    @cached_property
    def weight(self) -> Float[np.ndarray, "D N"]:
        """Of the ridge regression."""
        rows, (left, right) = self.shots, self._smoother
        found = right @ self._members
        return np.asarray(found if left is rows else rows.T @ found)

    def of(self, features: Float[np.ndarray, "m D"]) -> Float[np.ndarray, " m"]:
        """The closeness of new photos."""
        rows = prepared(features, POWER)
        cosines = np.maximum(*((rows @ others.T).max(axis=1) for others in (self.shots, self.prototypes)))
        return np.asarray((cosines + (rows @ self.weight).max(axis=1)) / 2)

    def nearest(self, features: Float[np.ndarray, "m D"]) -> Int[np.ndarray, " m"]:
        """The labelled photo that is nearest."""
        return np.asarray((prepared(features, POWER) @ self.shots.T).argmax(axis=1))

    def left_out(self, together: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The closeness of each labelled photo to the others, without its copies and its group.

        NaN where its class has no other photo. The regression without some rows has a closed form: their
        errors are (1 - H)⁻¹ times those with them, where H is their block of the matrix that makes fitted
        values of targets.
        """
        result = np.full(len(self.shots), np.nan)
        members, (left, right) = self._members, self._smoother
        fitted, sums = left @ (right @ members), members.T @ self.shots
        for number in np.unique(together):
            out = np.flatnonzero(together == number)
            remaining = members.sum(axis=0) - members[out].sum(axis=0)
            rows = self.shots[out]
            block = np.eye(len(out)) - left[out] @ right[:, out]
            values = members[out] - np.linalg.solve(block, members[out] - fitted[out])
            cosines = rows @ self.shots.T
            cosines[:, out] = -np.inf
            prototypes = unit_rows((sums - members[out].T @ rows)[remaining > 0])
            largest = np.maximum(cosines.max(axis=1), (rows @ prototypes.T).max(axis=1, initial=-np.inf))
            known = remaining[self.labels[out]] > 0
            result[out[known]] = ((largest + values.max(axis=1)) / 2)[known]
        return result

    @cached_property
    def _members(self) -> Float[np.ndarray, "n N"]:
        return np.asarray(np.eye(self.labels.max() + 1)[self.labels])

    @cached_property
    def _smoother(self) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "d n"]]:
        """Two matrices whose product makes fitted values of targets, in as few dimensions as there are."""
        rows, (count, dim) = self.shots, self.shots.shape
        if count <= dim:
            gram = rows @ rows.T
            return gram, np.linalg.inv(gram + STRENGTH * np.eye(count))
        return rows, np.linalg.solve(rows.T @ rows + STRENGTH * np.eye(dim), rows.T)


def closeness(features: Float[np.ndarray, "n D"], labels: Int[np.ndarray, " n"]) -> Closeness:
    """Labelled rows of features, ready to compare others with."""
    return Closeness(prepared(features, POWER), labels)


# Chosen on the train and validation classes of miniImageNet and CUB and on 60 classes of Sketchy, photos and
# sketches, at 2, 5 and 20 ways, 2, 5 and 10 shots, and shares of 5 and 10 %.
_SPREAD = 0.2
"""The usual spread of left-out photos, relative to how far they are from a closeness of 1."""
_EVIDENCE = 2
"""How many photos count as much as the usual spread."""


def threshold(left_out: Sequence[float], way: int, share: float = SHARE) -> float:
    """The closeness below which a photo is none of these: on average a share of the classes' own photos are.

    `left_out` is the closeness of left-out labelled photos of `way` classes. Without any, when no class has
    two photos, no photo is rejected.

    The next value is below the k-th smallest of n values with probability k / (n + 1), whatever their
    distribution. This gives the threshold for a share of 1 / (n + 1) or more. For a smaller one it is below
    the smallest value, by as much as Student's t distribution with the spread of the values says. New photos
    are closer than left-out ones, which are compared with one shot less; this gain, in spreads, was measured.
    """
    if not len(left_out):
        return -np.inf
    count, mean = len(left_out), float(np.mean(left_out))
    freedom = _EVIDENCE + count - 1
    squares = _EVIDENCE * (_SPREAD * (1 - mean)) ** 2 + float(np.var(left_out)) * count
    observed = max(share, 1 / (count + 1))
    lowest = float(np.quantile(left_out, observed, method="weibull"))
    below = 0.0
    if observed > share:
        from scipy.special import stdtrit  # takes a while, and larger classifiers do without it

        below = float(stdtrit(freedom, share) - stdtrit(freedom, observed)) * sqrt(1 + 1 / count)
    gain = (1 + 2 / way) / max(2.0, count / way)
    return float(lowest + sqrt(squares / freedom) * (below + gain))
