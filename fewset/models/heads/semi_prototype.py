"""Semi-ProtoNet's head: prototypes refined with the queries."""

from jaxtyping import Bool, Float
from torch import Tensor

from fewset.core.errors import UserError
from fewset.models.about import About
from fewset.models.heads import SimilarityHead, register_head
from fewset.models.similarity import find_similarity
from fewset.tasks.episode import prototypes


@register_head("semi_prototype")
class SemiPrototypeHead(SimilarityHead):
    """Semi-ProtoNet: prototypes refined with the queries as unlabelled items (Ren et al., 2018).

    Soft k-means: a query belongs to each class by softmax(similarity / temperature), and counts in the
    class's mean by that share, beside the shots that count 1 each. So it wants `average="post"`, else the
    shots of a class together count 1. `steps` refinements; none is the prototype head.
    """

    about = About(
        "class means refined with the queries by soft k-means",
        paper="Semi-ProtoNet, Ren et al., ICLR 2018",
        iterative=True,
        kind="transductive",
        every_shot=True,
    )

    def __init__(
        self, dim: int, similarity: str = "euclidean", temperature: float = 1.0, steps: int = 1
    ) -> None:
        super().__init__(dim, find_similarity(similarity), temperature)
        if steps < 0:
            raise UserError(f"steps is {steps}, expected 0 or more")
        self.steps = steps

    def forward(
        self,
        support: Float[Tensor, "T N K D"],
        query: Float[Tensor, "T M D"],
        mask: Bool[Tensor, "T N K"] | None = None,
    ) -> Float[Tensor, "T M N"]:
        return self.similarity(query, self.refined(support, query, mask)) / self.temperature

    def refined(
        self,
        support: Float[Tensor, "T N K D"],
        query: Float[Tensor, "T M D"],
        mask: Bool[Tensor, "T N K"] | None = None,
    ) -> Float[Tensor, "T N D"]:
        """The prototypes, refined with these queries."""
        shots = support.new_ones(support.shape[:3]) if mask is None else mask.to(support.dtype)
        shots = shots.sum(dim=2).unsqueeze(-1)
        labelled = centres = prototypes(support, mask)
        for _ in range(self.steps):
            share = (self.similarity(query, centres) / self.temperature).softmax(dim=-1).mT
            centres = (shots * labelled + share @ query) / (shots + share.sum(dim=-1, keepdim=True))
        return centres
