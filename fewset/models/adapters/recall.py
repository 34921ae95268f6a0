"""Classes seen against what their set has in common, with a memory of the train classes."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from fewset.core.errors import UserError
from fewset.models.adapters import Context, Queries, Sets, register_adapter, start_from_zero
from fewset.models.method_info import MethodInfo


@register_adapter("recall")
class Recall(nn.Module):
    """Items and queries less what the set has in common, which a memory of the train classes recalls.

    With an origin b and a memory of class means μ, an item φ recalls
    r(φ) = Σ softmax(cos(φ - b, μ) / τ) μ, the mean of the train classes that are like it. Then

        items    ψ = (I + W) (φ - b + β r(φ) - κ m)
        queries  χ = (I + W) (q - b - κ m)

    where m is the mean of r over the set. An item moves towards what is known of classes like it (β). What
    all classes of the task have in common does not tell them apart, so it is removed (κ), from queries too:
    related classes recall the same, and m is long; unrelated ones recall different things, and m is short.
    Directions are what is compared, so the head's similarity should be the cosine.

    A set of one has nothing in common with others, so there κ counts as 0. What remains, the same function
    without its set, is the control.

    b and μ begin as the mean of the train split and the means of its classes (`fit`). With `zero_start` b, W,
    β and κ begin as zero, so the function is the identity.
    """

    about = MethodInfo("what the set has in common removed, from queries too", paper="fewset", trained=True)

    def __init__(
        self,
        dim: int,
        slots: int = 64,
        sharpness: float = 8.0,
        denoise: float = 0.5,
        common: float = 0.9,
        zero_start: bool = False,
    ) -> None:
        super().__init__()
        self.origin = nn.Parameter(torch.zeros(dim))
        self.memory = nn.Parameter(torch.randn(slots, dim))
        self.sharpness = nn.Parameter(torch.tensor(sharpness))  # 1 / τ
        self.denoise = nn.Parameter(torch.tensor(0.0 if zero_start else denoise))  # β
        self.common = nn.Parameter(torch.tensor(0.0 if zero_start else common))  # κ
        self.map = nn.Linear(dim, dim, bias=False)
        start_from_zero(self.map)

    @torch.no_grad()
    def fit(self, features: Float[Tensor, "items D"], labels: Int[Tensor, " items"]) -> None:
        """Begin with the mean of the train split as the origin, and its classes as the memory."""
        classes = torch.unique(labels)
        if len(classes) != len(self.memory):
            raise UserError(
                f"recall has {len(self.memory)} slots, but the train split has {len(classes)} classes; set "
                f"model.adapter_options.slots = {len(classes)}"
            )
        self.origin.copy_(features.mean(dim=0))
        means = [features[labels == label].mean(dim=0) for label in classes]
        self.memory.copy_(torch.stack(means) - self.origin)

    def forward(self, items: Sets, context: Context = None) -> Sets:
        rows = items if context is None else torch.cat([items, context], dim=1)
        recalled = self._recalled(rows)
        items = items + self.denoise * recalled[:, : items.shape[1]]
        return self._less(items, recalled)

    def adapt_queries(self, items: Sets, queries: Queries) -> Queries:
        """The queries, each by itself, less what the items have in common."""
        return self._less(queries, self._recalled(items))

    def _recalled(self, rows: Float[Tensor, "B R D"]) -> Float[Tensor, "B R D"]:
        directions = F.normalize(rows - self.origin, dim=-1) @ F.normalize(self.memory, dim=-1).T
        recalled: Tensor = (self.sharpness * directions).softmax(dim=-1) @ self.memory
        return recalled

    def _less(self, rows: Float[Tensor, "B R D"], recalled: Float[Tensor, "B S D"]) -> Float[Tensor, "B R D"]:
        rows = rows - self.origin
        if recalled.shape[1] > 1:
            rows = rows - self.common * recalled.mean(dim=1, keepdim=True)
        mapped: Tensor = rows + self.map(rows)
        return mapped
