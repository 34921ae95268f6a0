"""None of these: a photo that is not close enough to any labelled one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from fewset.classify.heads import prepared, unit_rows
from fewset.core.errors import UserError

POWER = 1.0
"""Cosines of the features themselves separate unknown classes better than those of their roots."""
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
    """Labelled photos to compare new ones with: by cosines to each of them and to the prototypes."""

    shots: Float[np.ndarray, "n D"]
    labels: Int[np.ndarray, " n"]
    sums: Float[np.ndarray, "N D"]
    """Of the shots of each class; the prototypes are these at length 1."""

    def largest(self, features: Float[np.ndarray, "m D"]) -> Float[np.ndarray, " m"]:
        """The largest cosine of each new photo to a shot or to a prototype."""
        rows = prepared(features, POWER)
        cosines = rows @ self.shots.T, rows @ unit_rows(self.sums).T
        return np.asarray(np.maximum(*(part.max(axis=1) for part in cosines)))

    def nearest(self, features: Float[np.ndarray, "m D"]) -> Int[np.ndarray, " m"]:
        """The labelled photo that is nearest."""
        return np.asarray((prepared(features, POWER) @ self.shots.T).argmax(axis=1))

    def left_out(self, together: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The largest cosine of each labelled photo to the others, without its copies and its group.

        NaN where its class has no other photo.
        """
        result = np.full(len(self.shots), np.nan)
        counts = np.bincount(self.labels)
        for number, shot in enumerate(self.shots):
            out = np.flatnonzero(together == together[number])
            left = counts - np.bincount(self.labels[out], minlength=len(counts))
            if left[self.labels[number]]:
                sums = self.sums.copy()
                np.subtract.at(sums, self.labels[out], self.shots[out])
                cosines = self.shots @ shot
                cosines[out] = -np.inf
                result[number] = max(cosines.max(), (unit_rows(sums[left > 0]) @ shot).max())
        return result


def closeness(features: Float[np.ndarray, "n D"], labels: Int[np.ndarray, " n"]) -> Closeness:
    """Labelled rows of features, ready to compare others with."""
    shots = prepared(features, POWER)
    return Closeness(shots, labels, np.eye(labels.max() + 1)[labels].T @ shots)


def threshold(left_out: Sequence[float], share: float = SHARE) -> float:
    """The cosine below which a photo is none of these: about a share of the classes' own photos are.

    `left_out` are cosines of left-out labelled photos. Without any, when no class has two photos, no photo is
    rejected.
    """
    return float(np.quantile(left_out, share)) if len(left_out) else -np.inf
