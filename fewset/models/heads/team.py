"""TEAM's head: a metric for each task, and similarity in both directions."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from fewset.models.heads import Logits, Mask, Queries, Shots, SimilarityHead, at_least, register_head
from fewset.models.layers.task_rows import mixture_distances, mixtures, task_rows
from fewset.models.method_info import MethodInfo
from fewset.models.similarity import negative_squared_euclidean


@register_head("team")
class TeamHead(SimilarityHead):
    """The transductive episodic-wise adaptive metric (Qiao et al., 2019); `average="post"`.

    The metric M of a task draws together the pairs of rows that are of one class, and stays near the
    Euclidean one in the LogDet divergence:

        min over M > 0 of `strength` / s² sum_ij v_ij (x_i - x_j)' M (x_i - x_j) / 2 + tr(M) - log det(M)

    in closed form M = (I + `strength` C / s²)^-1, where C = sum_i sum_n y_in (x_i - c_n)(x_i - c_n)' / S is
    the scatter within the classes. A shot is in its own class, y_in is 1 or 0; a query is in each class by
    softmax(-‖x - p‖² / temperature); c_n is the mean of a class with these shares, so v_ij =
    sum_n y_in y_jn / (S sum_k y_kn). s² = tr(C) / D makes `strength` independent of the features' scale.

    Similarity in both directions: a query's share of the classes times a class's share of the queries,
    logits = log softmax over n (-d / temperature) + log softmax over m (-d / temperature), with
    d = (x - p)' M (x - p) and p the prototypes. It assumes about as many queries a class.

    Deviations: the authors published no code, and the objective above is a reading of their paper's
    description, not a copy of its formula. The prior is the identity, and pairs that must not be linked
    are left out, with which the problem would have no minimum. Their mixing of the items of training tasks is
    not part of a head.
    """

    about = MethodInfo(
        "a metric for each task, similarity in both directions",
        paper="TEAM, Qiao et al., ICCV 2019",
        kind="transductive",
        every_shot=True,
        no_onnx="it solves equations, and ONNX has no operator for that",
    )

    def __init__(self, dim: int, strength: float = 1.0, temperature: float = 1.0) -> None:
        super().__init__(dim, negative_squared_euclidean, temperature)
        at_least(0, strength=strength)
        self.strength = strength

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        rows, labels = task = task_rows(support, query, mask)
        centred = rows - rows.mean(dim=1, keepdim=True)  # differences stay, rounding errors shrink
        inner = centred @ centred.mT
        prototypes = mixtures(F.pad(labels, (0, query.shape[1])))
        nearness = -mixture_distances(inner, prototypes)[..., task.labelled :] / self.temperature
        shares = torch.cat([labels, nearness.softmax(dim=1)], dim=-1)
        adapted = adapted_products(inner, shares, self.strength * self.dim)
        nearness = -mixture_distances(adapted, prototypes)[..., task.labelled :] / self.temperature
        return (nearness.log_softmax(dim=1) + nearness.log_softmax(dim=-1)).mT


def adapted_products(
    inner: Float[Tensor, "T S S"], shares: Float[Tensor, "T N S"], strength: float
) -> Float[Tensor, "T S S"]:
    """The inner products X M X' of rows by the metric of their task, from the products X X' alone.

    C = X' L X / S with L = diag(1) - Y diag(1 / sizes) Y', so X M X' = (I + κ X X' L)^-1 X X'.
    """
    present = shares.sum(dim=1)
    laplacian = torch.diag_embed(present) - shares.mT @ mixtures(shares)
    scatter = (laplacian * inner).sum(dim=(1, 2), keepdim=True).clamp_min(torch.finfo(inner.dtype).tiny)
    system = strength / scatter * inner @ laplacian
    system = system + torch.eye(system.shape[-1], dtype=inner.dtype, device=inner.device)
    # Without a check, so that a task with values that are not finite does not stop the others.
    solution: Tensor = torch.linalg.solve_ex(system, inner).result
    return solution
