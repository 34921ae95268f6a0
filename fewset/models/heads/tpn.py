"""TPN's head: label propagation over a graph whose width is learnt, row by row."""

from torch import nn

from fewset.models.heads import Logits, Mask, Queries, Shots, register_head
from fewset.models.heads.label_propagation import check_graph, propagated
from fewset.models.layers.task_rows import TaskRows, task_rows
from fewset.models.method_info import MethodInfo
from fewset.models.similarity import negative_squared_euclidean


@register_head("tpn")
class TpnHead(nn.Module):
    """The transductive propagation network (Liu et al., 2019); `average="post"`, to be trained on tasks.

    A small network g gives each row its own width, σ_i = g(x_i). Two nodes of the graph are joined by
    w_ij = exp(-½ ‖x_i/σ_i - x_j/σ_j‖² / D), where one of them is among the `neighbours` largest of the other;
    then labels are propagated as in `label_propagation`. Cross-entropy of the logits is the paper's loss.

    Deviations: g is D -> `hidden` -> 1 on embeddings, where the paper has two convolutions and two layers on
    feature maps; a softplus keeps σ above 0, which nothing does in the authors' code.
    """

    about = MethodInfo(
        "label propagation over a graph of learnt width",
        paper="TPN, Liu et al., ICLR 2019",
        kind="transductive",
        every_shot=True,
        trained=True,
        no_onnx="it solves equations, and ONNX has no operator for that",
    )

    def __init__(self, dim: int, hidden: int = 64, neighbours: int = 20, spread: float = 0.99) -> None:
        super().__init__()
        check_graph(neighbours, spread)
        self.dim, self.similarity = dim, negative_squared_euclidean
        self.neighbours, self.spread = neighbours, spread
        self.width = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, 1), nn.Softplus())

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        rows, shares = task_rows(support, query, mask)
        scaled = rows / (self.width(rows) * rows.shape[-1] ** 0.5)
        return propagated(TaskRows(scaled, shares), self.neighbours, self.spread)
