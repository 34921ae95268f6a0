"""SimpleShot's head: nearest centroid of transformed features."""

from jaxtyping import Bool, Float
from torch import Tensor

from fewset.models.about import About
from fewset.models.heads import SimilarityHead, register_head
from fewset.models.layers.transform import transformed, unset_mean
from fewset.models.similarity import negative_squared_euclidean
from fewset.tasks.episode import prototypes


@register_head("simple_shot")
class SimpleShotHead(SimilarityHead):
    """The nearest centroid of transformed features, squared Euclidean (Wang et al., 2019); `average="post"`.

    `transform` is applied to every feature before the centroids are taken: "none", "l2n" (length 1) or
    "cl2n" (less the mean of the training features, then length 1). For "cl2n" call `fit` once.
    """

    about = About(
        "the nearest centroid of centred features of length 1",
        paper="SimpleShot, Wang et al., 2019",
        every_shot=True,
        fitted=True,
    )

    mean: Tensor | None

    def __init__(self, dim: int, transform: str = "none", temperature: float = 1.0) -> None:
        super().__init__(dim, negative_squared_euclidean, temperature)
        self.transform = transform
        self.register_buffer("mean", unset_mean(transform, dim))

    def fit(self, features: Float[Tensor, "items D"]) -> None:
        """Take the mean of the training features, where the transform needs it."""
        if self.mean is not None:
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
        remedy = "call head.fit(features of the training split)"
        return transformed(features, self.transform, self.mean, remedy)
