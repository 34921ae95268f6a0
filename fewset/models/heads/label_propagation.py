"""Label propagation: labels spread over a graph of all shots and queries."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.core.errors import UserError
from fewset.models.heads import Logits, Mask, Queries, Shots, above_zero, at_least, register_head
from fewset.models.layers.task_rows import TaskRows, task_rows
from fewset.models.method_info import MethodInfo
from fewset.models.regression import cholesky
from fewset.models.similarity import negative_squared_euclidean


@register_head("label_propagation")
class LabelPropagationHead(nn.Module):
    """Label propagation (Zhou et al., 2004) over the rows of a task; `average="post"`.

    The features have length 1. Every row is a node; two nodes are joined by w_ij = exp(-‖x_i - x_j‖² / 2σ²)
    where one of them is among the `neighbours` largest of the other. With S = D^-½ W D^-½, where D holds the
    sums of W's rows, the logits are the queries' rows of (I - spread S)^-1 Y, where Y are the shots' labels.
    `width` is σ.
    """

    about = MethodInfo(
        "labels spread over a graph of shots and queries",
        paper="Zhou et al., NeurIPS 2004",
        kind="transductive",
        every_shot=True,
        no_onnx="it solves equations, and ONNX has no operator for that",
    )

    def __init__(self, dim: int, width: float = 0.3, neighbours: int = 20, spread: float = 0.99) -> None:
        super().__init__()
        above_zero(width=width)
        check_graph(neighbours, spread)
        self.dim, self.similarity = dim, negative_squared_euclidean
        self.width, self.neighbours, self.spread = width, neighbours, spread

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        rows, shares = task_rows(F.normalize(support, dim=-1), F.normalize(query, dim=-1), mask)
        return propagated(TaskRows(rows / self.width, shares), self.neighbours, self.spread)


def check_graph(neighbours: int, spread: float) -> None:
    """Raise for options of the graph that are out of range."""
    at_least(1, neighbours=neighbours)
    if not 0 < spread < 1:
        raise UserError(f"spread is {spread}, expected a share between 0 and 1")


def propagated(task: TaskRows, neighbours: int, spread: float) -> Float[Tensor, "T M N"]:
    """Logits of the queries, by labels spread over a graph of width 1.

    A node is its own nearest neighbour, as in TPN's code, so that no row sums to 0.
    """
    rows, shares = task
    there = task.counted
    edges = (negative_squared_euclidean(rows, rows) / 2).exp()
    edges = edges * (there.unsqueeze(1) & there.unsqueeze(2))
    with torch.no_grad():
        nearest = edges.topk(min(neighbours, edges.shape[-1]), dim=-1).indices
        kept = torch.zeros_like(edges).scatter_(-1, nearest, 1)
    edges = edges * torch.maximum(kept, kept.mT)
    scale = torch.where(there, edges.sum(dim=-1), 1).rsqrt()
    system = -spread * edges * scale.unsqueeze(1) * scale.unsqueeze(2)
    system = system + torch.eye(system.shape[-1], dtype=rows.dtype, device=rows.device)
    labels = F.pad(shares, (0, task.queries.shape[1])).mT
    return torch.cholesky_solve(labels, cholesky(system))[:, task.labelled :]
