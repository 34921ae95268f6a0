"""A LayerNorm of each item: FEAT without its attention."""

from torch import Tensor, nn

from fewset.models.adapters import Context, Sets, register_adapter
from fewset.models.method_info import MethodInfo


@register_adapter("norm")
class Norm(nn.Module):
    """ψ = LayerNorm(φ), a control: it never looks at the set."""

    about = MethodInfo("a LayerNorm of each item, blind to its set", paper="a control", trained=True)

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, items: Sets, context: Context = None) -> Sets:  # noqa: ARG002
        normalised: Tensor = self.norm(items)
        return normalised
