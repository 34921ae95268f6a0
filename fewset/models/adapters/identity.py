"""No adaptation: with this adapter the model is a Prototypical Network."""

from jaxtyping import Float
from torch import Tensor, nn

from fewset.models.adapters import register_adapter
from fewset.models.method_info import MethodInfo


@register_adapter("identity")
class Identity(nn.Module):
    """Returns the items as they are."""

    about = MethodInfo("no adaptation", paper="ProtoNet, Snell et al., NeurIPS 2017")

    adapts = False

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(
        self,
        items: Float[Tensor, "B S *places D"],
        context: Float[Tensor, "B C *places D"] | None = None,  # noqa: ARG002
    ) -> Float[Tensor, "B S *places D"]:
        return items
