"""How sure a share of a few photos is."""

from math import sqrt
from typing import NamedTuple

Z95 = 1.959963984540054


class Interval(NamedTuple):
    low: float
    high: float


def wilson(right: int, count: int, z: float = Z95) -> Interval:
    """Wilson's 95 % interval of a share, which holds for few trials and for shares near 0 and 1."""
    share = right / count
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))
