"""The plane on which points differ most, for pictures of embeddings."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Plane(NamedTuple):
    """Where the plane lies, its two directions, and the share of the points' variance that it shows."""

    centre: Float[np.ndarray, " D"]
    directions: Float[np.ndarray, "2 D"]
    shown: float

    def places(self, points: Float[np.ndarray, "M D"]) -> Float[np.ndarray, "M 2"]:
        """The places of points on the plane, 0 being the centre."""
        places: np.ndarray = (points - self.centre) @ self.directions.T
        return places


def principal_plane(points: Float[np.ndarray, "M D"]) -> Plane:
    """The mean of the points and the two directions in which they vary most (PCA).

    The sign of a principal direction is arbitrary; its largest entry is made positive, so that the same
    points always give the same picture. A direction that the points do not have is 0.
    """
    exact = points.astype(np.float64)
    centre = exact.mean(axis=0)
    _, sizes, found = np.linalg.svd(exact - centre, full_matrices=False)
    directions = np.zeros((2, exact.shape[1]))
    directions[: len(found[:2])] = found[:2]
    signs = np.sign(directions[[0, 1], np.abs(directions).argmax(axis=1)])
    total = float((sizes**2).sum())
    shown = float((sizes[:2] ** 2).sum()) / total if total > 0 else 1.0
    return Plane(centre, directions * signs[:, None], shown)
