"""Which tasks to draw, and how many."""

from dataclasses import dataclass

from fewset.core.errors import UserError
from fewset.core.randomness import check_seed, whole_number

_LEAST = {"way": 1, "shot": 1, "query": 1, "tasks": 1, "related": 0}
_MOST = 10**8  # the accuracy of each task is kept in memory


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
        seed: An integer from 0 up.
        related: Above 0, the classes of a task are related: one class and others of its N nearest. The
            set says which are near (`fewset data relate`). With 0 classes are drawn independently.

    Raises:
        ValueError: A value is not an integer or out of range, or `related` is too small for the ways.

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
        for name, least in _LEAST.items():
            value = whole_number(getattr(self, name), name)
            if not least <= value <= _MOST:
                raise UserError(f"{name} is {value}, expected {least} to {_MOST:,}")
        check_seed(self.seed)
        if 0 < self.related < self.way - 1:
            raise UserError(
                f"related is {self.related}, expected 0 or at least {self.way - 1}: a {self.way}-way task "
                "has that many classes beside the first"
            )
