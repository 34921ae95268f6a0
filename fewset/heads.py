"""Classification heads: adapted support and queries in, logits out. No state of a task is kept.

A head is built as `Head(dim, **options)` and called as `head(support, query, mask)`. `support` holds one
row a class where the model averages before the adaptation, and one a shot where it averages after it
(`mask` marks the rows that count when shots differ by class). Heads that look at single shots want
`average="post"`; their docstrings say so. Every head has the attributes `similarity` and `temperature`.

A head that takes something from the training features without a gradient has a method `fit(features)`
(`FittedHead`), to be called once before use; what it learns is part of the state dict.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from fewset.episode import prototypes
from fewset.errors import UserError, known
from fewset.similarity import SIMILARITIES, Similarity, cosine, negative_squared_euclidean, one_sided_cosine

HEADS: dict[str, type[nn.Module]] = {}


@runtime_checkable
class FittedHead(Protocol):
    """A head that wants the features of the train split before it is used."""

    def fit(self, features: Float[Tensor, "items D"]) -> None: ...


_Head = TypeVar("_Head", bound=type[nn.Module])


def register_head(name: str) -> Callable[[_Head], _Head]:
    """Class decorator: make a head known to recipes under `name`."""

    def register(head: _Head) -> _Head:
        taken = HEADS.get(name)
        if taken is not None and (taken.__module__, taken.__qualname__) != (
            head.__module__,
            head.__qualname__,
        ):
            raise UserError(f"the head name {name!r} is taken by {taken.__qualname__}; choose another name")
        HEADS[name] = head
        return head

    return register


def _similarity(name: str) -> Similarity:
    if name not in SIMILARITIES:
        raise known("similarity", name, SIMILARITIES)
    return SIMILARITIES[name]


def _temperature(value: float) -> float:
    if not value > 0:
        raise UserError(f"temperature is {value}, expected a number above 0")
    return value


@register_head("prototype")
class PrototypeHead(nn.Module):
    """Similarity to the mean of each class's rows, divided by the temperature (Snell et al., 2017)."""

    def __init__(self, dim: int, similarity: str = "euclidean", temperature: float = 1.0) -> None:
        super().__init__()
        self.dim = dim
        self.similarity = _similarity(similarity)
        self.temperature = _temperature(temperature)

    def forward(
        self,
        support: Float[Tensor, "T N K D"],
        query: Float[Tensor, "T M D"],
        mask: Bool[Tensor, "T N K"] | None = None,
    ) -> Float[Tensor, "T M N"]:
        return self.similarity(query, prototypes(support, mask)) / self.temperature


@register_head("matching")
class MatchingHead(nn.Module):
    """Matching Network (Vinyals et al., 2016, as in supplement A of the paper); wants `average="post"`.

    A query attends to all shots of the task, softmax(cosine / temperature), and the probability of a class
    is the attention that its shots get. The logits are the logarithms of these probabilities.

    `as_published` is the arithmetic of the authors' code: the logit of a class is the sum over its shots of
    the one-sided cosine, divided by the temperature, without a softmax over the shots. With one shot it
    differs from the paper by the scale |q| of each query alone; with more shots it is a comparison with the
    mean of the normalised shots rather than with the nearest of them.
    """

    def __init__(self, dim: int, temperature: float = 1.0, as_published: bool = False) -> None:
        super().__init__()
        self.dim = dim
        self.similarity = one_sided_cosine if as_published else cosine
        self.temperature = _temperature(temperature)
        self.as_published = as_published

    def forward(
        self,
        support: Float[Tensor, "T N K D"],
        query: Float[Tensor, "T M D"],
        mask: Bool[Tensor, "T N K"] | None = None,
    ) -> Float[Tensor, "T M N"]:
        scores = self.similarity(query, support.flatten(1, 2)) / self.temperature
        scores = scores.reshape(*scores.shape[:2], *support.shape[1:3])
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(1), 0.0 if self.as_published else -torch.inf)
        return scores.sum(dim=-1) if self.as_published else scores.logsumexp(dim=-1).log_softmax(dim=-1)


@register_head("simple_shot")
class SimpleShotHead(nn.Module):
    """The nearest centroid of transformed features, squared Euclidean (Wang et al., 2019); `average="post"`.

    `transform` is applied to every feature before the centroids are taken: "none", "l2n" (length 1) or
    "cl2n" (less the mean of the training features, then length 1). For "cl2n" call `fit` once.
    """

    mean: Tensor

    def __init__(self, dim: int, transform: str = "none", temperature: float = 1.0) -> None:
        super().__init__()
        if transform not in ("none", "l2n", "cl2n"):
            raise known("transform", transform, ("none", "l2n", "cl2n"))
        self.dim, self.transform = dim, transform
        self.similarity = negative_squared_euclidean
        self.temperature = _temperature(temperature)
        # NaN until `fit`, so that "not fitted" survives saving and loading.
        if transform == "cl2n":
            self.register_buffer("mean", torch.full((dim,), torch.nan))

    def fit(self, features: Float[Tensor, "items D"]) -> None:
        """Take the mean of the training features, where the transform needs it."""
        if self.transform == "cl2n":
            self.mean.copy_(features.mean(dim=0))

    def forward(
        self,
        support: Float[Tensor, "T N K D"],
        query: Float[Tensor, "T M D"],
        mask: Bool[Tensor, "T N K"] | None = None,
    ) -> Float[Tensor, "T M N"]:
        centroids = prototypes(self._transformed(support), mask)
        return self.similarity(self._transformed(query), centroids) / self.temperature

    def _transformed(self, features: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        if self.transform == "none":
            return features
        if self.transform == "cl2n":
            if self.mean.isnan().any():
                raise UserError(
                    "transform 'cl2n' subtracts the mean of the training features, and it is not set; "
                    "call head.fit(features of the training split) first, or use transform='l2n'"
                )
            features = features - self.mean
        return F.normalize(features, dim=-1)


@register_head("semi_prototype")
class SemiPrototypeHead(nn.Module):
    """Semi-ProtoNet: prototypes refined with the queries as unlabelled items (Ren et al., 2018).

    Soft k-means: a query belongs to each class by softmax(similarity / temperature), and counts in the
    class's mean by that share, beside the shots that count 1 each. So it wants `average="post"`, else the
    shots of a class together count 1. `steps` refinements; none is the prototype head.
    """

    def __init__(
        self, dim: int, similarity: str = "euclidean", temperature: float = 1.0, steps: int = 1
    ) -> None:
        super().__init__()
        if steps < 0:
            raise UserError(f"steps is {steps}, expected 0 or more")
        self.dim, self.steps = dim, steps
        self.similarity = _similarity(similarity)
        self.temperature = _temperature(temperature)

    def forward(
        self,
        support: Float[Tensor, "T N K D"],
        query: Float[Tensor, "T M D"],
        mask: Bool[Tensor, "T N K"] | None = None,
    ) -> Float[Tensor, "T M N"]:
        shots = support.new_ones(support.shape[:3]) if mask is None else mask.to(support.dtype)
        shots = shots.sum(dim=2).unsqueeze(-1)
        labelled = centres = prototypes(support, mask)
        for _ in range(self.steps):
            share = (self.similarity(query, centres) / self.temperature).softmax(dim=-1).mT
            centres = (shots * labelled + share @ query) / (shots + share.sum(dim=-1, keepdim=True))
        return self.similarity(query, centres) / self.temperature
