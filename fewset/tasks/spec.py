"""Which tasks to draw, and how many."""

from dataclasses import dataclass

from fewset.runtime.errors import UserError


@dataclass(frozen=True)
class TaskSpec:
    """Which tasks to draw, and how many: `way` classes of `shot` labelled items and `query` queries each."""

    way: int = 5
    shot: int = 1
    query: int = 15
    tasks: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("way", 1), ("shot", 1), ("query", 1), ("tasks", 1), ("seed", 0)):
            value = getattr(self, name)
            if value < least:
                raise UserError(f"{name} is {value}, expected {least} or more")
