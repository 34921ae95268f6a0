"""Random numbers as a pure function of what they are for: a hash of integers."""

from enum import IntEnum

import numpy as np
from jaxtyping import UInt64

from fewset.core.errors import UserError

_SEEDS = 2**63
_START, _FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95)
_FINALISER = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))  # of SplitMix64: shift, then multiply
_LAST_SHIFT = np.uint64(31)


class Stream(IntEnum):
    """The use of random numbers: the last part of a seed that `mix` makes.

    Released results depend on these values: add new ones, never change one.
    """

    AUGMENTATION = 1
    EPOCH_ORDER = 2
    CLASSIFIER_WEIGHTS = 3
    MODEL_WEIGHTS = 4
    VALIDATION_ROWS = 5
    VALIDATION_CLASSES = 6
    TASK_ROTATION = 7
    RELATED_TASKS = 10
    AUXILIARY_WEIGHTS = 11
    JOINT_CLASSIFIER_WEIGHTS = 12
    JOINT_BATCH = 13
    JOINT_AUGMENTATION = 14
    JOINT_SPLIT = 15
    OTHER_TASKS = 21


def check_seed(seed: int) -> int:
    """The seed, or an error unless it is from 0 to 2**63 - 1."""
    if not 0 <= whole_number(seed, "seed") < _SEEDS:
        raise UserError(f"seed is {seed}, expected a whole number from 0 to 2**63 - 1")
    return seed


def whole_number(value: object, name: str) -> int:
    """The value, or an error if it is not an integer."""
    if not isinstance(value, int | np.integer):
        raise UserError(f"{name} is {value!r:.50}, expected a whole number")
    return int(value)


def mix(*parts: int) -> int:
    """A 63-bit seed from several integers, such as the seed of a run, a step and a `Stream`."""
    return int(hash_keys(*(np.asarray(check_seed(part), dtype=np.uint64) for part in parts)) >> np.uint64(1))


def hash_keys(*parts: int | np.ndarray) -> UInt64[np.ndarray, "..."]:
    """A hash of the parts, broadcast against each other (the finaliser of SplitMix64 after each part)."""
    state = np.asarray(_START)
    with np.errstate(over="ignore"):
        for part in parts:
            state = np.asarray(state + np.asarray(part).astype(np.uint64) * _FACTOR)
            shifted = np.empty_like(state)  # one for all shifts: what is in the cache stays there
            for shift, factor in _FINALISER:
                state ^= np.right_shift(state, np.uint64(shift), out=shifted)
                state *= np.uint64(factor)
            state ^= np.right_shift(state, _LAST_SHIFT, out=shifted)
    return state
