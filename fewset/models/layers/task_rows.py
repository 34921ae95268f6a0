"""The shots and queries of a task as one set of rows, for heads that look at all of them together.

Values of a row and a class are stored class by class (T, N, S): a softmax over a few classes is ten times
faster across long rows than along short ones.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fewset.models.regression import support_rows


class TaskRows(NamedTuple):
    """The shots of a task, class by class, and then its queries: S = N K + M rows.

    `shares` is 1 for a shot and its class, else 0. A shot that does not count is a row of zeros, without a
    class.
    """

    rows: Float[Tensor, "T S D"]
    shares: Float[Tensor, "T N NK"]

    @property
    def labelled(self) -> int:
        """How many rows are shots."""
        return self.shares.shape[2]

    @property
    def shots(self) -> Float[Tensor, "T NK D"]:
        return self.rows[:, : self.labelled]

    @property
    def queries(self) -> Float[Tensor, "T M D"]:
        return self.rows[:, self.labelled :]

    @property
    def counted(self) -> Bool[Tensor, "T S"]:
        """The rows that count: all but the masked shots."""
        shots = self.shares.sum(dim=1) > 0
        return torch.cat([shots, shots.new_ones(len(shots), self.queries.shape[1])], dim=1)


def task_rows(
    support: Float[Tensor, "T N K D"],
    query: Float[Tensor, "T M D"],
    mask: Bool[Tensor, "T N K"] | None = None,
) -> TaskRows:
    """The rows of tasks, from the arguments of a head."""
    rows, members = support_rows(support, mask)
    return TaskRows(torch.cat([rows, query], dim=1), members.mT.contiguous())


def mixtures(shares: Float[Tensor, "T N S"]) -> Float[Tensor, "T N S"]:
    """The mean of each class as weights of its rows; each row counts by its share in the class."""
    return shares / shares.sum(dim=-1, keepdim=True)


def mixture_distances(
    inner: Float[Tensor, "T S S"], weights: Float[Tensor, "T N S"]
) -> Float[Tensor, "T N S"]:
    """Squared distances of rows to mixtures of the rows themselves, from their inner products alone.

    A method that moves the centres a hundred times reads the D values of a row only once.
    """
    products = weights @ inner
    squares = (products * weights).sum(dim=-1, keepdim=True)
    return inner.diagonal(dim1=1, dim2=2).unsqueeze(1) - 2 * products + squares
