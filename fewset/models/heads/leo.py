"""Latent embedding optimisation (LEO): a task's weights are adapted in a space of a few dimensions."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.models.heads import Logits, Mask, Queries, Shots, above_zero, at_least, register_head
from fewset.models.method_info import MethodInfo
from fewset.models.regression import support_rows
from fewset.models.similarity import cosine


def support_gradient(
    weights: Float[Tensor, "T N D"], rows: Float[Tensor, "T S D"], members: Float[Tensor, "T S N"]
) -> Float[Tensor, "T N D"]:
    """The gradient by the weights of the mean cross-entropy of the rows that count."""
    counts = members.sum(dim=-1, keepdim=True)
    residual = counts * (rows @ weights.mT).softmax(dim=-1) - members
    return residual.mT @ rows / counts.sum(dim=1, keepdim=True)


@register_head("leo")
class LeoHead(nn.Module):
    """Weights are decoded from a latent code of each class, which gradient descent adapts to the shots.

    Rusu et al. (2019), on embeddings of one length as there; wants `average="post"`.

    1. The code of a class is the mean over its shots and all shots of relation(encode(x), encode(x')).
    2. The codes are decoded to weights, w = decode(z), and adapted: z ← z - a ∂L/∂z, `steps` times, where L
       is the mean cross-entropy of the shots under logits x w and the rate a is learned.
    3. The weights themselves are adapted `tuning_steps` times, with a learned rate of their own.

    Deviations: embeddings have the length `length`, 1 in the paper; a larger one makes logits large from the
    start, so that thousands of tasks suffice to learn instead of millions. Codes and weights are the means of
    the Gaussians that Rusu et al. sample from in training; without sampling there are neither the penalties
    of these Gaussians nor that of the encoder.
    """

    about = MethodInfo(
        "weights adapted by gradient descent on a latent code",
        paper="LEO, Rusu et al., ICLR 2019",
        every_shot=True,
        trained=True,
        no_onnx="it fits each task by gradient descent, which cannot be traced",
    )

    def __init__(
        self,
        dim: int,
        latent: int = 64,
        hidden: int = 128,
        steps: int = 5,
        tuning_steps: int = 5,
        rate: float = 1.0,
        tuning_rate: float = 1e-3,
        dropout: float = 0.3,
        length: float = 1.0,
    ) -> None:
        super().__init__()
        at_least(1, latent=latent, hidden=hidden)
        at_least(0, steps=steps, tuning_steps=tuning_steps)
        above_zero(length=length)
        self.dim, self.steps, self.tuning_steps, self.length = dim, steps, tuning_steps, length
        self.similarity = cosine
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.Linear(dim, latent, bias=False)
        self.own, self.other = (nn.Linear(latent, hidden, bias=False) for _ in range(2))
        self.relation = nn.Sequential(nn.ReLU(), nn.Linear(hidden, hidden, bias=False), nn.ReLU())
        self.code = nn.Linear(hidden, latent, bias=False)
        self.decoder = nn.Linear(latent, dim, bias=False)
        self.rate = nn.Parameter(torch.tensor(rate))
        self.tuning_rate = nn.Parameter(torch.tensor(tuning_rate))

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        rows, members = support_rows(self.length * F.normalize(support, dim=-1), mask)
        codes = self.encode(rows, members)
        for _ in range(self.steps):
            gradient = support_gradient(self.decoder(codes), rows, members)
            codes = codes - self.rate * (gradient @ self.decoder.weight)
        weights: Tensor = self.decoder(codes)
        for _ in range(self.tuning_steps):
            weights = weights - self.tuning_rate * support_gradient(weights, rows, members)
        return self.length * F.normalize(query, dim=-1) @ weights.mT

    def encode(self, rows: Float[Tensor, "T S D"], members: Float[Tensor, "T S N"]) -> Float[Tensor, "T N L"]:
        """The code of each class: the mean over the pairs of its shots with all shots, each class alike.

        The first layer of the relation is linear in both of a pair, and so is the last in their mean.
        """
        encoded = self.encoder(self.dropout(rows))
        pairs = self.relation(self.own(encoded).unsqueeze(2) + self.other(encoded).unsqueeze(1))
        shares = members / members.sum(dim=1, keepdim=True)
        everywhere = shares.mean(dim=-1)
        met = (pairs * everywhere[:, None, :, None]).sum(dim=2)
        codes: Tensor = self.code(shares.mT @ met)
        return codes
