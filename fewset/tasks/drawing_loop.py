"""The tasks of `fewset.tasks.sampling` by compiled loops: the very same rows, in a fifth of the time."""

import numpy as np
from jaxtyping import Int, UInt64

from fewset.compute.compiling import compiled
from fewset.tasks.hashing import FACTOR, FINALISER, LAST_SHIFT, START

MOST = 100
"""So many are drawn of a class at most, or classes: each is compared with all that come into question."""

_SHARE = 1.5  # how many keys are expected to come into question, by those that are drawn
_LARGEST = np.uint64(2**64 - 1)


@compiled("uint64(uint64, uint64)")
def hashed(state: np.uint64, part: np.uint64) -> np.uint64:
    """The state of `hash_keys` after another part."""
    state += part * FACTOR
    state = (state ^ (state >> FINALISER[0][0])) * FINALISER[0][1]
    state = (state ^ (state >> FINALISER[1][0])) * FINALISER[1][1]
    return state ^ (state >> LAST_SHIFT)


@compiled("void(uint64[::1], int64[::1], uint64[::1], int64[::1])")
def find_smallest(
    keys: UInt64[np.ndarray, " n"],
    found: Int[np.ndarray, " count"],
    few: UInt64[np.ndarray, " more"],
    places: Int[np.ndarray, " more"],
) -> None:
    """Put the positions of the smallest keys into `found`, in their order; of equal ones the first is first.

    Keys are uniform, so nearly all are told by a limit. The place of a key is the number of smaller ones.
    `few` and `places` are room for one number more than there are keys.
    """
    items, count = len(keys), len(found)
    expected = _SHARE * count
    left = 0
    while left < count:
        limit = _LARGEST if expected >= items else np.uint64(expected / items * 2.0**64)
        left = 0
        for item in range(items):  # without a branch, which would be foretold wrongly
            few[left], places[left] = keys[item], item
            left += keys[item] <= limit
        expected *= 2
    found[:] = -1
    for one in range(left):
        key, smaller = few[one], 0
        for other in range(left):
            smaller += few[other] < key
        while smaller < count and found[smaller] >= 0:  # an equal one has been there before
            smaller += 1
        if smaller < count:
            found[smaller] = places[one]


@compiled("void(uint64, int64, int64[:,::1], int64[::1], int64[:,:,::1])")
def draw_tasks(
    seed: int,
    first: int,
    rows: Int[np.ndarray, "classes most"],
    sizes: Int[np.ndarray, " classes"],
    drawn: Int[np.ndarray, "T N KQ"],
) -> None:
    """Fill in the rows of the tasks from number `first` on. A class's own are the first of its `rows`."""
    tasks, way, count = drawn.shape
    classes = len(sizes)
    room = max(classes, rows.shape[1])
    keys, few = np.empty(room, np.uint64), np.empty(room + 1, np.uint64)
    places, chosen, found = np.empty(room + 1, np.int64), np.empty(way, np.int64), np.empty(count, np.int64)
    of_seed = hashed(START, np.uint64(seed))
    for task in range(tasks):
        of_task = hashed(of_seed, np.uint64(first + task))
        for each in range(classes):
            keys[each] = hashed(of_task, np.uint64(each))
        find_smallest(keys[:classes], chosen, few, places)
        for place in range(way):
            label = chosen[place]
            of_class = hashed(of_task, np.uint64(label + 1))
            for item in range(sizes[label]):
                keys[item] = hashed(of_class, np.uint64(item))
            find_smallest(keys[: sizes[label]], found, few, places)
            for number in range(count):
                drawn[task, place, number] = rows[label, found[number]]
