"""LaplacianShot's head: neighbours among the queries agree."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.models.heads import Logits, Mask, Queries, Shots, at_least, register_head
from fewset.models.heads.bd_cspn import rectified, shifted
from fewset.models.layers.task_rows import mixtures, task_rows
from fewset.models.method_info import MethodInfo
from fewset.models.similarity import negative_squared_euclidean

_SCALE = 10.0  # of the cosines in the rectification, as in the authors' code


@register_head("laplacian_shot")
class LaplacianShotHead(nn.Module):
    """Laplacian-regularised assignment of the queries (Ziko et al., 2020); `average="post"`.

    All features have length 1. With a_qn the squared distance of query q to prototype n, the assignments y
    minimise sum_q y_q a_q + λ/2 sum_qp w_qp ‖y_q - y_p‖², where w_qp is 1 for the `neighbours` queries that
    are nearest to q. `steps` updates of a bound, each of all queries in parallel:

        y_q = softmax(-a_q + λ sum_p w_qp y_p)

    The logits are the arguments of the last softmax. `smoothness` is λ. With `rectify` the queries are
    shifted and the prototypes rectified as by BD-CSPN, with all queries.

    Deviations: the authors stop early when the bound hardly changes; here all `steps` are done. Their
    rectification weighs rows by a softmax over classes; this one as in BD-CSPN. They subtract the mean of the
    training features first: set `model.feature_transform = ["centre"]`.
    """

    about = MethodInfo(
        "nearest prototypes, on which neighbouring queries agree",
        paper="LaplacianShot, Ziko et al., ICML 2020",
        kind="transductive",
        every_shot=True,
        no_onnx="it looks for neighbours, whose number depends on the task",
    )

    def __init__(
        self, dim: int, smoothness: float = 0.5, neighbours: int = 3, steps: int = 20, rectify: bool = True
    ) -> None:
        super().__init__()
        at_least(0, smoothness=smoothness, steps=steps)
        at_least(1, neighbours=neighbours)
        self.dim, self.similarity, self.rectify = dim, negative_squared_euclidean, rectify
        self.smoothness, self.neighbours, self.steps = smoothness, neighbours, steps

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        task = task_rows(F.normalize(support, dim=-1), F.normalize(query, dim=-1), mask)
        if self.rectify:
            task = shifted(task)
            prototypes = rectified(task, _SCALE, task.queries.shape[1])
        else:
            prototypes = mixtures(task.shares) @ task.shots
        nearness = negative_squared_euclidean(prototypes, task.queries)
        # By columns: a query takes what its neighbours say.
        graph = self.smoothness * nearest_neighbours(task.queries, self.neighbours).mT.contiguous()
        logits = nearness
        for _ in range(self.steps):
            logits = nearness + logits.softmax(dim=1) @ graph
        return logits.mT


def nearest_neighbours(rows: Float[Tensor, "T M D"], count: int) -> Float[Tensor, "T M M"]:
    """A matrix of 0 and 1: row i marks the `count` rows nearest to row i, without itself."""
    with torch.no_grad():
        nearness = negative_squared_euclidean(rows, rows)
        nearness.diagonal(dim1=1, dim2=2).fill_(-torch.inf)
        nearest = nearness.topk(min(count, rows.shape[1] - 1), dim=-1).indices
        return torch.zeros_like(nearness).scatter_(-1, nearest, 1)
