"""Copies of one photo and photos of one group: they are left out together."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int, UInt64

from fewset.classify.heads import unit_rows

# Cosines are around the mean of all photos, which makes encoders comparable. Measured with efficientnet-lite0
# on 3,125 photographs: of different ones a thousandth has a cosine above 0.85, and none above 0.9; a photo
# and its mirror image, or the same cut to 95 %, are at 0.94, brightened ones at 0.98. Copies at half the size
# or strongly compressed are at 0.8, and their fingerprints differ in up to 9 bits.
SAME_PHOTO = 0.93
"""The cosine from which two photos are copies, with any fingerprints."""
ALIKE_PHOTO = 0.7
"""The cosine from which two photos with similar fingerprints are copies: flat pictures share fingerprints."""
ALIKE_BITS = 8
"""Bits of 64 in which alike fingerprints differ at most."""
SAME_ROW = 1 - 1e-9
"""The cosine from which rows of features without photos are copies."""
_ROWS = 256  # that are compared with all others at once: memory grows with the number of photos alone


def numbered_copies(
    rows: Float[np.ndarray, "n D"],
    fingerprints: UInt64[np.ndarray, " n"],
    cosine: float = ALIKE_PHOTO,
    bits: int = ALIKE_BITS,
) -> Int[np.ndarray, " n"]:
    """A number for each photo; copies of one photo (compressed, resized, brightened) have the same.

    `rows` are prepared. Photos with a cosine above `cosine` whose fingerprints differ in at most `bits` are
    copies, and so are those with a cosine above `SAME_PHOTO`. Rows of features that come without photos have
    the fingerprint 0, and only those that are practically equal count as copies.
    """
    rows = unit_rows(rows - rows.mean(axis=0))
    firsts = np.arange(len(rows))  # the first known copy of each photo
    for start in range(0, len(rows), _ROWS):
        block = slice(start, start + _ROWS)
        for found in _copies(rows[block], fingerprints[block], rows, fingerprints, cosine, bits):
            joined = firsts[found]
            if len(joined) and (joined != joined[0]).any():
                firsts[np.isin(firsts, joined)] = joined.min()
    return np.asarray(np.unique(firsts, return_inverse=True)[1])


def _copies(
    rows: Float[np.ndarray, "m D"],
    fingerprints: UInt64[np.ndarray, " m"],
    others: Float[np.ndarray, "n D"],
    other_fingerprints: UInt64[np.ndarray, " n"],
    cosine: float,
    bits: int,
) -> Bool[np.ndarray, "m n"]:
    cosines = rows @ others.T
    differing = np.bitwise_count(fingerprints[:, None] ^ other_fingerprints[None])
    photos = (fingerprints[:, None] != 0) & (other_fingerprints[None] != 0)
    alike = (cosines > SAME_PHOTO) | ((differing <= bits) & (cosines > cosine))
    return np.asarray((cosines > SAME_ROW) | (photos & alike))


def numbered_groups(groups: Sequence[str], copies: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """A number for each photo; those of one group have the same, and so have copies of one photo.

    `copies` numbers the photos: copies of one photo are equal. Where a photo has a copy in another group, the
    two groups are one.
    """
    named = np.array([bool(group) for group in groups])
    return joined(copies, np.where(named, np.unique(np.array(groups), return_inverse=True)[1], -1))


def joined(*numberings: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """A number for each photo: those that have one number in any of the numberings have the same.

    A photo with -1 has no number there.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count = len(numberings[0])
    edges = []
    for place, numbers in enumerate(numberings):
        photos = np.flatnonzero(numbers >= 0)
        edges.append(np.stack([photos, (place + 1) * count + numbers[photos]]))
    first, second = np.concatenate(edges, axis=1)
    size = (len(numberings) + 1) * count
    graph = coo_array((np.ones(len(first)), (first, second)), shape=(size, size))
    found = connected_components(graph, directed=False)[1][:count]
    return np.asarray(np.unique(found, return_inverse=True)[1])
