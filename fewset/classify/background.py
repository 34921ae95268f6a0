"""What labelled photos of other classes of the domain have taught, and whether it pays."""

from dataclasses import dataclass

from fewset.classify.adapted_head import AdaptedHead
from fewset.tasks.scores import Difference


@dataclass(frozen=True)
class HeldOutComparison:
    """FEAT with ridge against the classifier's head, on tasks of held-out classes of the background."""

    head: str
    classes: int
    held_out: int
    way: int
    shot: int
    tasks: int
    alone: float
    adapted: float
    gain: float
    ci95: float

    @property
    def kept(self) -> bool:
        """Whether FEAT is used: where the 95 % interval of the gain lies above 0."""
        return self.gain > self.ci95

    @property
    def in_words(self) -> str:
        return (
            f"background of {self.classes} classes, {self.held_out} of them held out, {self.way}-way "
            f"{self.shot}-shot: FEAT {100 * self.adapted:.1f} %, {self.head} {100 * self.alone:.1f} %, "
            f"{Difference(self.gain, self.ci95)}: {'kept' if self.kept else 'not kept'}"
        )


@dataclass(frozen=True, eq=False)
class Background:
    """What was learned from other classes: the head with FEAT, unless it is not ahead."""

    comparison: HeldOutComparison
    head: AdaptedHead | None
