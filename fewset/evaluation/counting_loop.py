"""The right answers of linear forms by a compiled loop, which looks at each query where it is in the table.

The decisions are those of `fewset.evaluation.deciding`: near ties are decided in double precision.
"""

import numpy as np
from jaxtyping import Float32, Int

from fewset.compute.compiling import compiled
from fewset.evaluation.near_ties import DOUBLE_ROUNDING, LOST, ROUNDING


@compiled("float32(float32[::1], float32[::1])", reorder=True)
def product(row: Float32[np.ndarray, " D"], weights: Float32[np.ndarray, " D"]) -> np.float32:
    """In single precision, several numbers at once."""
    total = np.float32(0)
    for place in range(len(row)):
        total += row[place] * weights[place]
    return total


@compiled("UniTuple(float64, 2)(float32[::1], float32[::1], float32)")
def exact_score(
    row: Float32[np.ndarray, " D"], weights: Float32[np.ndarray, " D"], offset: np.float32
) -> tuple[float, float]:
    """The score in double precision, and the sum of the sizes of what it is added up from."""
    score, size = -np.float64(offset), abs(np.float64(offset))
    for place in range(len(row)):
        part = np.float64(row[place]) * np.float64(weights[place])
        score += part
        size += abs(part)
    return score, size


@compiled("int64(float32[::1], float32[:,::1], float32[::1])")
def exact_answer(
    row: Float32[np.ndarray, " D"], weights: Float32[np.ndarray, "N D"], offset: Float32[np.ndarray, " N"]
) -> int:
    """The class with the highest score; of those that are equal in double precision, the first."""
    best, largest = -np.inf, 0.0
    for label in range(len(weights)):
        score, size = exact_score(row, weights[label], offset[label])
        best, largest = max(best, score), max(largest, size)
    answer = 0
    while exact_score(row, weights[answer], offset[answer])[0] < best - len(row) * DOUBLE_ROUNDING * largest:
        answer += 1
    return answer


@compiled(
    "boolean(float32[:,::1], float32[::1], int64[:,::1], int64[:,::1], float32[:,:,::1], float32[:,::1], "
    "float32[::1])"
)
def count_right(
    features: Float32[np.ndarray, "items D"],
    lengths: Float32[np.ndarray, " items"],
    queries: Int[np.ndarray, "T M"],
    labels: Int[np.ndarray, "T M"],
    weights: Float32[np.ndarray, "T N D"],
    offset: Float32[np.ndarray, "T N"],
    right: Float32[np.ndarray, " T"],
) -> bool:
    """Fill in how many queries of each task are answered rightly. `lengths` are those of the rows.

    False where numbers are not finite: then nothing is to be taken from it.
    """
    tasks, way, dim = weights.shape
    for task in range(tasks):
        longest, farthest = np.float32(0), np.float32(0)
        for label in range(way):
            squared, distance = product(weights[task, label], weights[task, label]), abs(offset[task, label])
            if not (np.isfinite(squared) and np.isfinite(distance)):
                return False
            longest, farthest = max(longest, squared), max(farthest, distance)
        longest = np.sqrt(longest)
        right[task] = 0
        for place, row in enumerate(queries[task]):
            wanted, other = labels[task, place], np.float32(-np.inf)
            own = product(features[row], weights[task, wanted]) - offset[task, wanted]
            for label in range(way):
                if label != wanted:
                    other = max(other, product(features[row], weights[task, label]) - offset[task, label])
            doubt = 2 * (dim + 4) * (ROUNDING * (longest * lengths[row] + farthest) + LOST)
            if not doubt < np.inf:
                return False
            if own - other > doubt:
                right[task] += 1
            elif own - other >= -doubt:
                right[task] += exact_answer(features[row], weights[task], offset[task]) == wanted
    return True
