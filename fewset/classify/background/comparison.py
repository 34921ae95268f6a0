"""Whether FEAT, trained on a background, pays. Read without torch, as `fewset predict` does it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fewset.tasks.scores import Difference

if TYPE_CHECKING:
    from fewset.classify.background.head import AdaptedHead


@dataclass(frozen=True)
class HeldOutComparison:
    """The gain of FEAT on tasks of held-out classes of the background, and the share of it due to the set.

    FEAT is trained twice: on the set of a task's prototypes, and on each prototype as a set of one. The set
    is used where it adds.
    """

    head: str
    classes: int
    held_out: int
    way: int
    shot: int
    tasks: int
    alone: float
    """The accuracy of the classifier's head without FEAT."""
    adapted: float
    """That with FEAT, on the set or on sets of one, whichever is used."""
    gain: float
    ci95: float
    set_adds: float
    """The accuracy of FEAT on the set less that of FEAT on sets of one."""
    set_ci95: float

    @property
    def uses_set(self) -> bool:
        """Whether FEAT sees the set: where the 95 % interval of what that adds lies above 0."""
        return self.set_adds > self.set_ci95

    @property
    def kept(self) -> bool:
        """Whether FEAT is used: where the 95 % interval of the gain lies above 0."""
        return self.gain > self.ci95

    @property
    def in_words(self) -> str:
        decision = "not kept" if not self.kept else "kept" if self.uses_set else "kept without the set"
        return (
            f"background of {self.classes} classes, {self.held_out} of them held out, {self.way}-way "
            f"{self.shot}-shot: FEAT {100 * self.adapted:.1f} %, {self.head} {100 * self.alone:.1f} %, "
            f"{Difference(self.gain, self.ci95)}: {decision}; "
            f"the set adds {Difference(self.set_adds, self.set_ci95)} on held-out classes"
        )


@dataclass(frozen=True, eq=False)
class Background:
    """The result of training on other classes; `head` is None where FEAT is not ahead."""

    comparison: HeldOutComparison
    head: "AdaptedHead | None"
