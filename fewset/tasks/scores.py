"""Accuracy over tasks: means with their intervals, and paired differences."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from jaxtyping import Float

from fewset.core.errors import UserError
from fewset.tasks.spec import TaskSpec

ALONE, FOREIGN = "alone", "foreign"
"""The names of the two controls among the scores of a result (`fewset.evaluation.controls`)."""

SET_ADDS = "set_adds"
"""In results: the accuracy minus that of the same weights with each item as a set of one, paired by task."""

SET_ADDS_TO = "set_adds_to"
"""In results of settings with several scores: what the set adds to each of them, by name."""


def interval95(values: Float[np.ndarray, " n"]) -> float:
    """Half the width of the 95 % interval of the mean, by Student's t: t s / sqrt(n).

    A single value has no interval: NaN.
    """
    if len(values) < 2:
        return float("nan")
    from scipy.special import stdtrit

    factor = float(stdtrit(len(values) - 1, 0.975))
    return factor * float(values.std(ddof=1)) / sqrt(len(values))


@dataclass(frozen=True, eq=False)
class Score:
    """Accuracy over tasks; all values are fractions, from 0 to 1.

    Args:
        mean: The mean over the tasks.
        ci95: Half the width of the 95 % interval of the mean: it reaches from `mean - ci95` to
            `mean + ci95`. NaN for a single task.
        per_task: The accuracy of each task.
        spec: Which tasks these are, if known.
        drawn_from: A digest of the labels that the tasks were drawn from; empty if not known.

    Example:
        >>> import fewset
        >>> import numpy as np
        >>> print(fewset.Score.of(np.array([0.6, 0.8, 0.7, 0.9])))
        75.00 ± 20.54 %
    """

    mean: float
    ci95: float
    per_task: Float[np.ndarray, " tasks"]
    spec: TaskSpec | None = None
    drawn_from: str = ""

    @classmethod
    def of(
        cls, per_task: Float[np.ndarray, " tasks"], spec: TaskSpec | None = None, drawn_from: str = ""
    ) -> "Score":
        """The score of tasks whose accuracies are known."""
        exact = per_task.astype(np.float64)
        return cls(float(exact.mean()), interval95(exact), per_task, spec, drawn_from)

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
    """The paired difference of two scores, `first` minus `second`.

    Its interval is far narrower than those of the two scores suggest, since a task that is hard for one model
    is mostly hard for the other.

    Args:
        first: A score.
        second: A score on the same tasks: the same data, `TaskSpec` and seed.

    Returns:
        The mean difference and its interval.

    Raises:
        ValueError: The scores are of different tasks: their number, `TaskSpec` or labels differ.

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
            f"the scores cover {len(first.per_task)} and {len(second.per_task)} tasks; evaluate both with "
            "the same task options and seed"
        )
    for one, other in ((first.spec, second.spec), (first.drawn_from, second.drawn_from)):
        if one and other and one != other:
            raise UserError(
                f"the scores are of different tasks, {one} and {other}; evaluate both on the same items and "
                "with the same task options"
            )
    differences = first.per_task.astype(np.float64) - second.per_task.astype(np.float64)
    return Difference(float(differences.mean()), interval95(differences))
