"""BD-CSPN's head: prototypes rectified by the queries that are surely theirs."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.models.heads import Logits, Mask, Queries, Shots, above_zero, at_least, register_head
from fewset.models.layers.task_rows import TaskRows, mixtures, task_rows
from fewset.models.method_info import MethodInfo
from fewset.models.similarity import cosine


@register_head("bd_cspn")
class BdCspnHead(nn.Module):
    """Bias-diminished cosine prototypes (Liu et al., 2020); `average="post"`.

    All features have length 1. Two biases of the prototypes are diminished:

    * Across classes: the queries are shifted, x += mean(shots) - mean(queries).
    * Within a class: the prototype p_n becomes the weighted mean of its shots and of the `confident` queries
      that are nearest to it among those for which it is the nearest; a row counts exp(scale cos(x, p_n)).

    The logits are `scale` times the cosines of the shifted queries with the rectified prototypes.
    """

    about = MethodInfo(
        "prototypes rectified by the queries that are surely theirs",
        paper="BD-CSPN, Liu et al., ECCV 2020",
        kind="transductive",
        every_shot=True,
    )

    def __init__(self, dim: int, scale: float = 10.0, confident: int = 8) -> None:
        super().__init__()
        above_zero(scale=scale)
        at_least(0, confident=confident)
        self.dim, self.similarity, self.scale, self.confident = dim, cosine, scale, confident

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        task = shifted(task_rows(F.normalize(support, dim=-1), F.normalize(query, dim=-1), mask))
        return self.scale * cosine(task.queries, rectified(task, self.scale, self.confident))


def shifted(task: TaskRows) -> TaskRows:
    """The task with its queries moved so that their mean is that of the shots."""
    count = task.shares.sum(dim=(1, 2)).view(-1, 1, 1)
    shift = task.shots.sum(dim=1, keepdim=True) / count - task.queries.mean(dim=1, keepdim=True)
    return TaskRows(torch.cat([task.shots, task.queries + shift], dim=1), task.shares)


def rectified(task: TaskRows, scale: float, confident: int) -> Float[Tensor, "T N D"]:
    """Prototypes with which the most confident queries of each class count, too."""
    cosines = cosine(mixtures(task.shares) @ task.shots, task.rows)
    weights = (scale * (cosines - 1)).exp()  # between 0 and 1, whatever the scale
    own, queries = weights[..., : task.labelled] * task.shares, weights[..., task.labelled :]
    confident = min(confident, queries.shape[-1])
    with torch.no_grad():
        taken = queries * (queries == queries.amax(dim=1, keepdim=True))
        least = taken.topk(confident, dim=-1).values[..., -1:] if confident else torch.inf
        taken = (taken >= least) & (taken > 0)
    return mixtures(torch.cat([own, queries * taken], dim=-1)) @ task.rows
