"""Accuracy over tasks: means with their intervals, and paired differences. NumPy only."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from jaxtyping import Float

from fewset.runtime.errors import UserError

# The 97.5 % quantiles of Student's t for 1, 2, … 28 degrees of freedom; of more it is all but normal.
_STUDENT = (
    12.7062047362, 4.3026527297, 3.1824463053, 2.7764451052, 2.5705818356, 2.4469118511, 2.3646242516,
    2.3060041352, 2.2621571628, 2.2281388520, 2.2009851601, 2.1788128297, 2.1603686565, 2.1447866879,
    2.1314495456, 2.1199052992, 2.1098155778, 2.1009220402, 2.0930240544, 2.0859634473, 2.0796138447,
    2.0738730679, 2.0686576104, 2.0638985616, 2.0595385528, 2.0555294386, 2.0518305165, 2.0484071418,
)  # fmt: skip
_NORMAL = 1.96


def interval95(values: Float[np.ndarray, "n"]) -> float:
    """Half the width of the 95 % interval of the mean: 1.96 s / sqrt(n), with Student's t below 30 values.

    A single value has no interval: NaN.
    """
    freedom = len(values) - 1
    if freedom < 1:
        return float("nan")
    factor = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _NORMAL
    return factor * float(values.std(ddof=1)) / sqrt(len(values))


@dataclass(frozen=True, eq=False)
class Score:
    """Accuracy over tasks, as fractions: the mean, its 95 % interval (± `ci95`), the value of each task."""

    mean: float
    ci95: float
    per_task: Float[np.ndarray, "tasks"]

    @classmethod
    def of(cls, per_task: Float[np.ndarray, "tasks"]) -> "Score":
        exact = per_task.astype(np.float64)
        return cls(float(exact.mean()), interval95(exact), per_task)

    def __str__(self) -> str:
        return f"{100 * self.mean:.2f} ± {100 * self.ci95:.2f} %"


@dataclass(frozen=True)
class Difference:
    """The mean difference of two scores on the same tasks and its 95 % interval (± `ci95`)."""

    mean: float
    ci95: float

    @property
    def excludes_zero(self) -> bool:
        return abs(self.mean) > self.ci95

    def __str__(self) -> str:
        return f"{100 * self.mean:+.2f} ± {100 * self.ci95:.2f} points"


def compare(first: Score, second: Score) -> Difference:
    """`first - second`, paired by task: both must have been scored on the same tasks."""
    if len(first.per_task) != len(second.per_task):
        raise UserError(
            f"the scores cover {len(first.per_task)} and {len(second.per_task)} tasks; "
            "a paired comparison needs the same tasks: evaluate both with the same task options and seed"
        )
    differences = first.per_task.astype(np.float64) - second.per_task.astype(np.float64)
    return Difference(float(differences.mean()), interval95(differences))
