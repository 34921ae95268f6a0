"""Prototype Matching Networks (PMN): class means and queries embedded in the context of the task."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fewset.models.heads import Logits, Mask, Queries, Shots, SimilarityHead, at_least, register_head
from fewset.models.method_info import MethodInfo
from fewset.models.similarity import find_similarity
from fewset.tasks.episode import prototypes


@register_head("pmn")
class PmnHead(SimilarityHead):
    """Matching Networks in which every class is collapsed to its mean first (Wang et al., 2018).

    The context embeddings of Vinyals et al. (2016, supplement A) are taken of class means. With means w:

    * g(w) = w + forward + backward, a bidirectional LSTM over the means, in the order of the classes;
    * f(q) after `reads` steps h ← q + LSTM(q, r; h), where r = Σ softmax(h · g(w)) g(w) is what h reads.

    The logits are cos(f(q), g(w)) / temperature. They depend on the order of the classes, as the authors'
    do.
    """

    about = MethodInfo(
        "class means and queries embedded in the task's context",
        paper="PMN, Wang et al., CVPR 2018",
        trained=True,
    )
    equivariant = False

    def __init__(
        self, dim: int, reads: int = 2, similarity: str = "cosine", temperature: float = 0.1
    ) -> None:
        super().__init__(dim, find_similarity(similarity), temperature)
        at_least(1, reads=reads)
        self.reads = reads
        self.means = nn.LSTM(dim, dim, batch_first=True, bidirectional=True)
        self.reading = nn.LSTMCell(2 * dim, dim)

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        means = prototypes(support, mask)
        forward, backward = self.means(means)[0].chunk(2, dim=-1)
        means = means + (forward + backward)
        return self.similarity(self._read(query, means), means) / self.temperature

    def _read(self, query: Float[Tensor, "T M D"], means: Float[Tensor, "T N D"]) -> Float[Tensor, "T M D"]:
        hidden, cell = query, query.new_zeros(query[..., 0].numel(), query.shape[-1])
        for _ in range(self.reads):
            read = (hidden @ means.mT).softmax(dim=-1) @ means
            inputs = torch.cat([query, read], dim=-1).flatten(0, 1)
            output, cell = self.reading(inputs, (hidden.flatten(0, 1), cell))
            hidden = query + output.view_as(query)
        return hidden
