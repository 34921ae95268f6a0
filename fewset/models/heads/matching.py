"""Matching Network's head: attention to every shot."""

import torch

from fewset.models.heads import Logits, Mask, Queries, Shots, SimilarityHead, register_head
from fewset.models.method_info import MethodInfo
from fewset.models.similarity import cosine, one_sided_cosine


@register_head("matching")
class MatchingHead(SimilarityHead):
    """Matching Network (Vinyals et al., 2016, as in supplement A of the paper); wants `average="post"`.

    A query attends to all shots of the task, softmax(cosine / temperature), and the probability of a class
    is the attention that its shots get. The logits are the logarithms of these probabilities.

    `as_published` is the arithmetic of the authors' code: the logit of a class is the sum over its shots of
    the one-sided cosine, divided by the temperature, without a softmax over the shots. With one shot it
    differs from the paper by the length of each query alone; with more shots it is a comparison with the
    mean of the normalised shots rather than with the nearest of them.
    """

    about = MethodInfo(
        "attention to every shot", paper="Matching Networks, Vinyals et al., NeurIPS 2016", every_shot=True
    )

    def __init__(self, dim: int, temperature: float = 1.0, as_published: bool = False) -> None:
        super().__init__(dim, one_sided_cosine if as_published else cosine, temperature)
        self.as_published = as_published

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        scores = self.similarity(query, support.flatten(1, 2)) / self.temperature
        scores = scores.reshape(*scores.shape[:2], *support.shape[1:3])
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(1), 0.0 if self.as_published else -torch.inf)
        return scores.sum(dim=-1) if self.as_published else scores.logsumexp(dim=-1).log_softmax(dim=-1)
