"""Which tasks to draw, and how many."""

from dataclasses import dataclass

from fewset.runtime.errors import UserError
from fewset.tasks.hashing import check_seed


@dataclass(frozen=True)
class TaskSpec:
    """Which tasks to draw, and how many: `way` classes of `shot` labelled items and `query` queries each."""

    way: int = 5
    shot: int = 1
    query: int = 15
    tasks: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("way", "shot", "query", "tasks"):
            value = getattr(self, name)
            if value < 1:
                raise UserError(f"{name} is {value}, expected 1 or more")
        check_seed(self.seed)
