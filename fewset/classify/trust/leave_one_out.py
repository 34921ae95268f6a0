"""Every labelled photo classified by a fit without it.

Nothing of a left-out photo may remain, neither in the mean on which the rows are centred nor in any other
statistic: otherwise the accuracy is far too high.

One photo of every class is left out at a time. That takes as many fits as the largest class has photos, not
as many as there are photos, and is fairer than leaving out one photo alone, whose class then has a shot less
than the others: measured at 5-way 5-shot, the accuracy is 0.3 to 0.9 points too low instead of 1.8 to 2.1,
and at 3 shots 2.1 to 3.4 instead of 6.9 to 8.4.

Which photos are left out together is a matter of chance, so several pairings are drawn, and the logits of a
photo are their means.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float, Int

from fewset.classify.heads import ClassifierHead, membership

MOST_FITS = 20
"""Of a class with more photos several are left out at a time."""
_PAIRED_FITS = 40  # of all pairings together; there is always one pairing
_CHUNK_VALUES = 2**22  # of the rows of the fits that are made at once


def left_out_logits(
    head: ClassifierHead,
    rows: Float[np.ndarray, "n D"],
    labels: Int[np.ndarray, " n"],
    way: int,
    together: Int[np.ndarray, " n"],
    fits: int = MOST_FITS,
) -> Float[np.ndarray, "n N"]:
    """The logits of each prepared row from fits without it; NaN where its class has no other photo.

    `together` numbers the rows; rows of one number (copies of one photo, a group) are left out together. The
    result depends on the order of the rows, so callers put them in an order that comes from their content.
    """
    coordinates = _coordinates(rows) if getattr(head, "rotation_equivariant", True) else rows
    pairings = left_out_pairings(labels, together, fits)
    return np.asarray(np.mean([_logits(head, coordinates, labels, way, turns) for turns in pairings], axis=0))


def left_out_pairings(
    labels: Int[np.ndarray, " n"], together: Int[np.ndarray, " n"], fits: int = MOST_FITS
) -> Iterator[Int[np.ndarray, " n"]]:
    """The turns of several pairings: fewer where each takes more fits."""
    numbers = np.unique(together, return_inverse=True)[1]
    needed = left_out_turns(labels, numbers, fits).max() + 1
    for seed in range(max(1, _PAIRED_FITS // needed)):
        order = np.random.default_rng(seed).permutation(numbers.max() + 1)
        yield left_out_turns(labels, order[numbers], fits)


def _logits(
    head: ClassifierHead,
    rows: Float[np.ndarray, "n D"],
    labels: Int[np.ndarray, " n"],
    way: int,
    turns: Int[np.ndarray, " n"],
) -> Float[np.ndarray, "n N"]:
    """The logits of each row from the fit without those of its turn."""
    testable = _testable(labels, turns, way)
    logits = np.full((len(labels), way), np.nan)
    members = membership(labels, way)
    fitted = np.unique(turns[testable])
    size = max(1, _CHUNK_VALUES // (len(rows) * max(way, rows.shape[1])))
    for start in range(0, len(fitted), size):
        chunk = fitted[start : start + size]
        # The only photo of a class stays in: without it the class would be gone.
        out = (turns == chunk[:, None]) & testable
        repeated = np.broadcast_to(rows, (len(chunk), *rows.shape))
        answers = head.solve(repeated, members * ~out[..., None]).logits(repeated)
        logits[np.nonzero(out)[1]] = answers[out]
    return logits


def left_out_turns(
    labels: Int[np.ndarray, " n"], together: Int[np.ndarray, " n"], fits: int = MOST_FITS
) -> Int[np.ndarray, " n"]:
    """When each photo is left out: the first of every class first, and so on.

    Photos of one number have one turn. Where they are of several classes, it is that at which the fewest
    others of these are left out.
    """
    numbers = np.unique(together, return_inverse=True)[1]
    pairs = np.unique(np.stack([numbers, labels], axis=1), axis=0)  # in the order of the numbers
    taken = np.zeros((labels.max() + 1, fits), dtype=np.int64)
    turns = np.zeros(numbers.max() + 1, dtype=np.int64)
    for number, classes in enumerate(np.split(pairs[:, 1], np.flatnonzero(np.diff(pairs[:, 0])) + 1)):
        turns[number] = taken[classes].sum(axis=0).argmin()
        taken[classes, turns[number]] += 1
    return turns[numbers]


def _testable(
    labels: Int[np.ndarray, " n"], turns: Int[np.ndarray, " n"], way: int
) -> Bool[np.ndarray, " n"]:
    """Whether the class of a photo has one with another turn."""
    first = np.full(way, -1)
    first[labels] = turns
    several = np.zeros(way, dtype=bool)
    several[labels[turns != first[labels]]] = True
    return np.asarray(several[labels])


def _coordinates(rows: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n d"]:
    """The rows in the fewest dimensions, by a rotation, which no rotation-equivariant head sees."""
    return np.asarray(np.linalg.qr(rows.T, mode="r")).T if len(rows) < rows.shape[1] else rows
