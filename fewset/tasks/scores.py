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
    """Accuracy over tasks. All numbers are fractions, from 0 to 1.

    Args:
        mean: The mean over the tasks.
        ci95: Half the width of the 95 % interval of the mean: it reaches from `mean - ci95` to
            `mean + ci95`. NaN for a single task.
        per_task: The accuracy of each task.

    Example:
        >>> import fewset
        >>> import numpy as np
        >>> print(fewset.Score.of(np.array([0.6, 0.8, 0.7, 0.9])))
        75.00 ± 20.54 %
    """

    mean: float
    ci95: float
    per_task: Float[np.ndarray, "tasks"]

    @classmethod
    def of(cls, per_task: Float[np.ndarray, "tasks"]) -> "Score":
        """The score of tasks whose accuracies are known."""
        exact = per_task.astype(np.float64)
        return cls(float(exact.mean()), interval95(exact), per_task)

    def __str__(self) -> str:
        return f"{100 * self.mean:.2f} ± {100 * self.ci95:.2f} %"


@dataclass(frozen=True)
class Difference:
    """The difference of two scores on the same tasks, as `compare` gives it.

    Args:
        mean: The mean over the tasks of the first accuracy less the second, as a fraction.
        ci95: Half the width of the 95 % interval of that mean.

    Example:
        >>> import fewset
        >>> difference = fewset.Difference(mean=0.012, ci95=0.004)
        >>> print(difference)
        +1.20 ± 0.40 points
        >>> difference.excludes_zero
        True
    """

    mean: float
    ci95: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies wholly on one side of zero."""
        return abs(self.mean) > self.ci95

    def __str__(self) -> str:
        return f"{100 * self.mean:+.2f} ± {100 * self.ci95:.2f} points"


def compare(first: Score, second: Score) -> Difference:
    """The paired difference of two scores, `first` less `second`.

    The interval is that of the differences task by task. It is far narrower than the two scores suggest,
    since a task that is hard for one model is mostly hard for the other.

    Args:
        first: A score.
        second: A score on the same tasks: the same data, `TaskSpec` and seed.

    Returns:
        The mean difference and its interval.

    Raises:
        ValueError: The scores have different numbers of tasks.

    Example:
        >>> import fewset
        >>> import numpy as np
        >>> protonet = fewset.Score.of(np.array([0.60, 0.80, 0.70, 0.90]))
        >>> feat = fewset.Score.of(np.array([0.64, 0.83, 0.74, 0.93]))
        >>> print(fewset.compare(feat, protonet))
        +3.50 ± 0.92 points
    """
    if len(first.per_task) != len(second.per_task):
        raise UserError(
            f"the scores cover {len(first.per_task)} and {len(second.per_task)} tasks; "
            "a paired comparison needs the same tasks: evaluate both with the same task options and seed"
        )
    differences = first.per_task.astype(np.float64) - second.per_task.astype(np.float64)
    return Difference(float(differences.mean()), interval95(differences))
