"""A picture of the photos in two dimensions, with the prototypes before and after adaptation.

Everything is drawn in the space in which the head compares: features to the head's power, shifted, at length
1. There a class begins as the mean of its photos. What the head makes of it, with an eye on all other
classes, is the column of weights that a photo is multiplied with. Both are drawn as directions, at length 1.
For a head that compares with the means themselves they are one and the same.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from fewset.classify.heads import prepared, unit_rows
from fewset.classify.model import Learned
from fewset.evaluation.principal_plane import principal_plane


@dataclass(frozen=True, eq=False)
class Projection:
    """Places on a plane: the one on which the photos differ most (principal components)."""

    photos: Float[np.ndarray, "n 2"]
    before: Float[np.ndarray, "N 2"]
    """Prototypes: the mean of each class."""
    after: Float[np.ndarray, "N 2"]
    """Prototypes as the head has adapted them to each other."""
    shown: float
    """The share of the photos' differences that the plane shows."""


def projection(learned: Learned) -> Projection:
    """The picture of a classifier's labelled photos."""
    linear, support = learned.linear, learned.support
    rows = unit_rows(prepared(support.features, linear.power) - linear.shift)
    members = np.eye(len(support.classes))[support.labels]
    before = unit_rows(members.T @ rows)
    after = unit_rows(linear.weight.T)
    plane = principal_plane(rows)
    return Projection(plane.places(rows), plane.places(before), plane.places(after), plane.shown)
