"""Which tasks to draw, and how many."""

from dataclasses import dataclass

from fewset.runtime.errors import UserError
from fewset.tasks.hashing import check_seed, whole_number

_MOST = {"way": 10**5, "shot": 10**5, "query": 10**5, "tasks": 10**8}
"""What a machine can be asked for; the value of each task is kept in memory."""


@dataclass(frozen=True)
class TaskSpec:
    """Which tasks to draw, and how many.

    Task number `i` depends on `seed` and `i` alone. So two models are scored on the same tasks, and fewer
    tasks are the first of more.

    Args:
        way: Classes in a task.
        shot: Labelled items of each class, the support.
        query: Items of each class to be classified.
        tasks: How many tasks.
        seed: A whole number from 0 up.

    Raises:
        ValueError: A number is not whole, below 1 or absurdly large, or the seed is below 0.

    Example:
        >>> import fewset
        >>> fewset.TaskSpec(way=5, shot=1, tasks=600)
        TaskSpec(way=5, shot=1, query=15, tasks=600, seed=0)
    """

    way: int = 5
    shot: int = 1
    query: int = 15
    tasks: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("way", "shot", "query", "tasks"):
            value = whole_number(getattr(self, name), name)
            if value < 1:
                raise UserError(f"{name} is {value}, expected 1 or more")
            if value > _MOST[name]:
                raise UserError(f"{name} is {value}, expected at most {_MOST[name]:,}")
        check_seed(self.seed)
