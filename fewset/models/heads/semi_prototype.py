"""Semi-ProtoNet's head: prototypes refined with the queries."""

from jaxtyping import Bool, Float
from torch import Tensor

from fewset.models.heads import Logits, Mask, Queries, Shots, SimilarityHead, at_least, register_head
from fewset.models.method_info import MethodInfo
from fewset.models.similarity import Similarity, find_similarity
from fewset.tasks.episode import prototypes


def refined_means(
    support: Float[Tensor, "T N K D"],
    query: Float[Tensor, "T M D"],
    similarity: Similarity,
    temperature: float,
    steps: int,
    mask: Bool[Tensor, "T N K"] | None = None,
) -> Float[Tensor, "T N D"]:
    """The class means after `steps` of soft k-means with these queries."""
    shots = support.new_ones(support.shape[:3]) if mask is None else mask.to(support.dtype)
    shots = shots.sum(dim=2).unsqueeze(-1)
    labelled = means = prototypes(support, mask)
    for _ in range(steps):
        share = (similarity(query, means) / temperature).softmax(dim=-1).mT
        means = (shots * labelled + share @ query) / (shots + share.sum(dim=-1, keepdim=True))
    return means


@register_head("semi_prototype")
class SemiPrototypeHead(SimilarityHead):
    """Semi-ProtoNet: prototypes refined with the queries as unlabelled items (Ren et al., 2018).

    Soft k-means: a query belongs to each class by softmax(similarity / temperature), and counts in the
    class's mean by that share, beside the shots that count 1 each. So it wants `average="post"`, else the
    shots of a class together count 1. `steps` refinements; none is the prototype head.
    """

    about = MethodInfo(
        "class means refined with the queries by soft k-means",
        paper="Semi-ProtoNet, Ren et al., ICLR 2018",
        kind="transductive",
        every_shot=True,
        class_means=True,
    )

    def __init__(
        self, dim: int, similarity: str = "euclidean", temperature: float = 1.0, steps: int = 1
    ) -> None:
        super().__init__(dim, find_similarity(similarity), temperature)
        at_least(0, steps=steps)
        self.steps = steps

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        means = refined_means(support, query, self.similarity, self.temperature, self.steps, mask)
        return self.similarity(query, means) / self.temperature
