"""ProtoNet's head: similarity to the class means."""

from fewset.models.heads import Logits, Mask, Queries, Shots, SimilarityHead, register_head
from fewset.models.method_info import MethodInfo
from fewset.models.similarity import find_similarity
from fewset.tasks.episode import prototypes


@register_head("prototype")
class PrototypeHead(SimilarityHead):
    """Similarity to the mean of each class's rows, divided by the temperature (Snell et al., 2017)."""

    about = MethodInfo(
        "similarity to the class means", paper="ProtoNet, Snell et al., NeurIPS 2017", class_means=True
    )

    def __init__(self, dim: int, similarity: str = "euclidean", temperature: float = 1.0) -> None:
        super().__init__(dim, find_similarity(similarity), temperature)

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        return self.similarity(query, prototypes(support, mask)) / self.temperature
