"""Which classes are for training, for validation and for testing, where the source does not say."""

import numpy as np
from jaxtyping import Int64

from fewset.core.errors import UserError
from fewset.core.randomness import mix

SHARES = (64, 16, 20)
"""Train, val and test classes of miniImageNet."""

_WAY = 5


def split_classes(
    classes: int, seed: int = 0, shares: tuple[int, int, int] = SHARES
) -> Int64[np.ndarray, " classes"]:
    """The split of each class, a number into `SPLITS`: at random, in proportion to `shares`.

    Val and test get at least five classes each, so that 5-way tasks can be drawn from them, or a third of
    the classes where there are fewer than 15: 100 classes are split 64/16/20, 20 are split 10/5/5, 5 are
    split 3/1/1. One or two classes are all for training. With few classes, evaluate a model that was
    trained on another set on the split "all", which has every class.
    """
    if min(shares) < 0 or sum(shares) == 0:
        raise UserError(f"the shares of train, val and test are {shares}, expected numbers of classes")
    least = min(_WAY, classes // 3)
    val, test = (max(least, round(classes * share / sum(shares))) if share else 0 for share in shares[1:])
    order = sorted(range(classes), key=lambda number: mix(seed, number))
    splits = np.zeros(classes, dtype=np.int64)
    splits[order[:val]] = 1
    splits[order[val : val + test]] = 2
    return splits
