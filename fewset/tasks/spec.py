"""Which tasks to draw, and how many."""

from dataclasses import dataclass

from fewset.core.errors import UserError
from fewset.core.randomness import check_seed, whole_number

_MOST = {"way": 10**5, "shot": 10**5, "query": 10**5, "tasks": 10**8, "related": 10**5}
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
        related: Above 0, the classes of a task are related: one class and others of its N nearest. The
            set says which are near (`fewset data relate`). With 0 classes are drawn independently.

    Raises:
        ValueError: A number is not whole, below 1 (related: below 0) or absurdly large, the seed is below 0,
            or the nearest classes are too few for the ways.

    Example:
        >>> import fewset
        >>> fewset.TaskSpec(way=5, shot=1, tasks=600)
        TaskSpec(way=5, shot=1, query=15, tasks=600, seed=0, related=0)
    """

    way: int = 5
    shot: int = 1
    query: int = 15
    tasks: int = 10_000
    seed: int = 0
    related: int = 0

    def __post_init__(self) -> None:
        for name in _MOST:
            value, least = whole_number(getattr(self, name), name), int(name != "related")
            if value < least:
                raise UserError(f"{name} is {value}, expected {least} or more")
            if value > _MOST[name]:
                raise UserError(f"{name} is {value}, expected at most {_MOST[name]:,}")
        check_seed(self.seed)
        if 0 < self.related < self.way - 1:
            raise UserError(
                f"related is {self.related}, expected 0 or at least {self.way - 1}: a {self.way}-way task "
                "has that many classes beside the first"
            )
