"""The right answers of linear forms by a compiled loop, which looks at each query where it is in the table.

Sums are taken in another order than torch takes them. So scores that are nearer to each other than all the
rounding of both could be are not told apart here: their task is left to torch.
"""

import numpy as np
from jaxtyping import Bool, Float32, Int

from fewset.runtime.compiling import compiled

_ROUNDING = 1.01 * 2.0**-24  # of each step in single precision, by the number; the lengths are rounded, too
_LOST = 2.0**-126  # products below this may be 0


@compiled("float32(float32[::1], float32[::1])", reorder=True)
def product(row: Float32[np.ndarray, "D"], weights: Float32[np.ndarray, "D"]) -> np.float32:
    """In single precision, several numbers at once."""
    total = np.float32(0)
    for place in range(len(row)):
        total += row[place] * weights[place]
    return total


@compiled("UniTuple(float64, 2)(float32[::1], float32[::1], float32)")
def exact_score(
    row: Float32[np.ndarray, "D"], weights: Float32[np.ndarray, "D"], offset: np.float32
) -> tuple[float, float]:
    """The score in double precision, and the sum of the sizes of what it is added up from."""
    score, size = -np.float64(offset), abs(np.float64(offset))
    for place in range(len(row)):
        part = np.float64(row[place]) * np.float64(weights[place])
        score += part
        size += abs(part)
    return score, size


@compiled("int64(float32[::1], float32[:,::1], float32[::1], int64)")
def sure_answer(
    row: Float32[np.ndarray, "D"],
    weights: Float32[np.ndarray, "N D"],
    offset: Float32[np.ndarray, "N"],
    wanted: int,
) -> int:
    """1 where torch is sure to find the wanted class, in whatever order it adds; -1 where it is not; else 0.

    A sum of D products in single precision is off by no more than D rounding errors of their sizes.
    """
    steps = len(row) + 4
    own, own_size = exact_score(row, weights[wanted], offset[wanted])
    answer = 1
    for label in range(len(weights)):
        if label != wanted:
            score, size = exact_score(row, weights[label], offset[label])
            doubt = steps * (_ROUNDING * (own_size + size) + 2 * _LOST)
            if own - score < -doubt:
                return -1
            if not own - score > doubt:  # or not a number
                answer = 0
    return answer


@compiled(
    "void(float32[:,::1], float32[::1], int64[:,::1], int64[:,::1], float32[:,:,::1], float32[:,::1], "
    "float32[::1], boolean[::1])"
)
def count_right(
    features: Float32[np.ndarray, "items D"],
    lengths: Float32[np.ndarray, "items"],
    queries: Int[np.ndarray, "T M"],
    labels: Int[np.ndarray, "T M"],
    weights: Float32[np.ndarray, "T N D"],
    offset: Float32[np.ndarray, "T N"],
    right: Float32[np.ndarray, "T"],
    sure: Bool[np.ndarray, "T"],
) -> None:
    """Fill in how many queries of each task are answered rightly, and whether that is sure.

    `lengths` are those of the rows: the sizes of D products add up to |row| |weights| at most. What this
    does not decide, for two classes that are both summed here and by torch, is looked at more closely.
    """
    tasks, way, dim = weights.shape
    for task in range(tasks):
        longest, farthest = np.float32(0), np.float32(0)
        for label in range(way):
            longest = max(longest, product(weights[task, label], weights[task, label]))
            farthest = max(farthest, abs(offset[task, label]))
        longest = np.sqrt(longest)
        right[task], sure[task] = 0, True
        for place, row in enumerate(queries[task]):
            wanted, other = labels[task, place], np.float32(-np.inf)
            own = product(features[row], weights[task, wanted]) - offset[task, wanted]
            for label in range(way):
                if label != wanted:
                    score = product(features[row], weights[task, label]) - offset[task, label]
                    if not (score <= other or np.isnan(other)):  # what is not a number stays
                        other = score
            margin = own - other
            doubt = 4 * (dim + 4) * (_ROUNDING * (longest * lengths[row] + farthest) + _LOST)
            if margin > doubt:
                right[task] += 1
            elif not margin < -doubt:
                answer = sure_answer(features[row], weights[task], offset[task], wanted)
                right[task] += answer > 0
                sure[task] &= answer != 0
