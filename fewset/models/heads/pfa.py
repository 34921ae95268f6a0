"""Parameters of the classifier predicted from the activations (PFA)."""

import torch.nn.functional as F
from torch import Tensor, nn

from fewset.models.heads import Logits, Mask, Queries, Shots, SimilarityHead, register_head
from fewset.models.method_info import MethodInfo
from fewset.models.similarity import cosine
from fewset.tasks.episode import prototypes


@register_head("pfa")
class PfaHead(SimilarityHead):
    """Logits q φ(a) / temperature: a network φ predicts a class's weights from its mean activation a.

    Qiao et al. (2018); wants `average="post"`: embeddings are brought to length 1, then averaged. φ is a
    network of one hidden layer that is shared by all classes.

    Deviations: the input of φ is added to its output, so that it starts near the nearest mean. φ learns from
    tasks as all heads do, by the cross-entropy among the task's classes, while Qiao et al. take that among
    all training classes. A class is always shown by the mean of its shots, where they mix in single ones.
    """

    about = MethodInfo(
        "weights of a class predicted from its mean activation",
        paper="PFA, Qiao et al., CVPR 2018",
        every_shot=True,
        trained=True,
    )

    def __init__(self, dim: int, hidden: int = 0, temperature: float = 0.1) -> None:
        super().__init__(dim, cosine, temperature)
        hidden = hidden or dim
        self.predictor = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        activations = prototypes(F.normalize(support, dim=-1), mask)
        weights: Tensor = activations + self.predictor(activations)
        return F.normalize(query, dim=-1) @ weights.mT / self.temperature
