"""Photos that belong together: of one object, one burst, one source. They are left out together.

A group is a text; "" is that of a photo that stands for itself.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.utils.validation import column_or_1d

from fewset.core.errors import UserError


def group_names(groups: Any, count: int) -> tuple[str, ...]:
    """The groups of so many photos as texts; None, of a photo or of all, is that it stands for itself."""
    if groups is None:
        return ("",) * count
    given = column_or_1d(np.asarray(groups, dtype=object))
    if len(given) != count:
        raise UserError(f"there are {count} photos and {len(given)} groups, expected one for each photo")
    return tuple("" if group is None or group != group else str(group) for group in given)


def numbered_groups(groups: Sequence[str], copies: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """A number for each photo; those of one group have the same, and so have copies of one photo.

    `copies` numbers the photos: copies of one photo are equal. Where a photo has a copy in another group, the
    two groups are one.
    """
    named = np.array([bool(group) for group in groups])
    if not named.any():
        return copies
    photos, numbers = np.flatnonzero(named), np.unique(np.array(groups)[named], return_inverse=True)[1]
    count = len(groups)
    first = np.concatenate([np.arange(count), photos])
    second = np.concatenate([count + copies, 2 * count + numbers])
    graph = coo_array((np.ones(len(first)), (first, second)), shape=(3 * count, 3 * count))
    joined = connected_components(graph, directed=False)[1][:count]
    return np.asarray(np.unique(joined, return_inverse=True)[1])
