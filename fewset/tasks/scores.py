"""Accuracy over tasks: means with their intervals, and paired differences. NumPy only."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from jaxtyping import Float

from fewset.runtime.errors import UserError


def interval95(values: Float[np.ndarray, "n"]) -> float:
    """Half the width of the 95 % interval of the mean: 1.96 s / sqrt(n)."""
    return 1.96 * float(values.std(ddof=1)) / sqrt(len(values)) if len(values) > 1 else float("nan")


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
