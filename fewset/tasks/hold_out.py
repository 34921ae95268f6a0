"""Items that are kept out of training: to validate and to test on seen classes."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from fewset.core.errors import UserError
from fewset.core.randomness import check_seed, hash_keys


class HeldOut(NamedTuple):
    """The rows of a table in three parts, in ascending order."""

    train: Int[np.ndarray, " train"]
    val: Int[np.ndarray, " val"]
    test: Int[np.ndarray, " test"]


def hold_out(labels: Int[np.ndarray, " items"], share: float = 0.25, seed: int = 0) -> HeldOut:
    """Keep a share of each class's items out of the training: half of it to validate, half to test.

    Which ones is a pure function of the seed, the class and the place of an item among those of its class.
    The default keeps 150 of 600 items of miniImageNet, as the paper does for its generalised setting.
    """
    if not 0 < share < 1:
        raise UserError(f"the share to hold out is {share}, expected a number between 0 and 1")
    check_seed(seed)
    part = np.zeros(len(labels), dtype=np.int64)  # 0 to train, 1 to validate, 2 to test
    classes, starts = np.unique(np.sort(labels), return_index=True)
    for label, rows in zip(classes, np.split(np.argsort(labels, kind="stable"), starts[1:]), strict=True):
        held = round(share * len(rows))
        if held < 2 or held == len(rows):
            raise UserError(
                f"{share} of the {len(rows)} items of class {label} are {held}, expected at least 2 and less "
                "than all; change the share"
            )
        drawn = rows[np.argsort(hash_keys(seed, int(label), np.arange(len(rows))))]
        part[drawn[: held // 2]], part[drawn[held // 2 : held]] = 1, 2
    return HeldOut(*(np.flatnonzero(part == number) for number in range(3)))
