"""The parts of a training step.

Each part is computed by one process on its own: with its own tasks or images, its own statistics of BatchNorm
and its own draws of dropout. A run that begins with several processes has one part for each, and keeps them:
when it goes on with another number of processes, these share the same parts, and what the parts have found is
added in their order. So the weights are the same, to the bit, whichever process does a part.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from fewset.compute import distributed
from fewset.core.errors import UserError


class Part(NamedTuple):
    """Part `number` of a step that has so many; by default the whole step."""

    number: int = 0
    of: int = 1

    def bounds(self, total: int) -> tuple[int, int]:
        """The first and last (excluded) of a step's tasks or images that are this part's."""
        size = total // self.of
        return self.number * size, (self.number + 1) * size

    @property
    def seed(self) -> tuple[int, ...]:
        """What to add to the parts of a seed, so that no two parts of a step draw the same numbers."""
        return (7, self.number) if self.number else ()


WHOLE = Part()


class PerStep(NamedTuple):
    """How many tasks or images a step has, and the key of the recipe that says so."""

    key: str
    total: int


def check_parts(step: PerStep, count: int) -> None:
    """All parts have as many tasks or images, so that their mean is the mean over the step."""
    if step.total % count:
        near = max(count, step.total - step.total % count)
        raise UserError(
            f"{step.key} is {step.total}, which cannot be divided among {count} processes; start "
            f"another number of them, or change the recipe: --set {step.key}={near}"
        )


def own_parts(count: int) -> list[Part]:
    """The parts that this process does. Where there are fewer than processes, several do the last one."""
    return [Part(number, count) for number in range(*distributed.shard(count, chunk=1))]


def flat(tensors: Sequence[Tensor]) -> Float[Tensor, " numbers"]:
    """The numbers of all tensors, one after another."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def average_(tensors: Sequence[Tensor], found: Sequence[Float[Tensor, " numbers"]], count: int) -> None:
    """Replace tensors by their mean over all parts; `found` has what each of this process's found, `flat`."""
    mean = distributed.mean_of_rows(torch.stack(list(found)), count)
    means = torch.split(mean, [tensor.numel() for tensor in tensors])
    for tensor, value in zip(tensors, means, strict=True):
        tensor.copy_(value.view(tensor.shape))
