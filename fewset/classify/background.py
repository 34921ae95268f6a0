"""What labelled photos of other classes of the domain have taught, and whether it pays."""

from dataclasses import dataclass

from fewset.classify.adapted_head import AdaptedHead
from fewset.tasks.scores import Difference


@dataclass(frozen=True)
class HeldOutComparison:
    """What FEAT gains on tasks of held-out classes of the background, and what of that is due to the set.

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
    """What was learned from other classes: the head with FEAT, unless it is not ahead."""

    comparison: HeldOutComparison
    head: AdaptedHead | None
