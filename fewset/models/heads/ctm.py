"""Category traversal (CTM): what distinguishes the classes of a task weighs the channels of its maps."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from fewset.models.heads import Logits, Mask, QueryMaps, ShotMaps, SimilarityHead, register_head
from fewset.models.layers.pooling import channels_first
from fewset.models.method_info import MethodInfo
from fewset.models.similarity import negative_squared_euclidean
from fewset.tasks.episode import prototypes


def _block(channels_in: int, channels: int) -> nn.Sequential:
    convolution = nn.Conv2d(channels_in, channels, 3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels), nn.ReLU())


@register_head("ctm")
class CtmHead(SimilarityHead):
    """The category traversal module (Li et al., 2019), on maps; `average="post"`, to be trained on tasks.

    1. Concentrator: a block on the map of each shot; the mean over the shots of a class is o_n.
    2. Projector: a block on what the maps o_n have in common and in which they differ, their mean and their
       variance over the classes. A softmax over the channels, times their number, is the task's weight p of
       each channel at each place, 1 in the mean.
    3. Reshaper: a block r on every map. The logit is -‖p r(q) - p mean_k r(s_nk)‖² / (P temperature), where
       P = H W is the number of places.

    A block is a convolution 3 x 3, BatchNorm and ReLU, and all have D channels.

    Deviations: the authors concatenate the maps o_n, which fixes the number and the order of the classes;
    mean and variance do not. Their blocks are bottlenecks of ResNets, for larger maps than these, and halve
    them. The metric is that of prototypes, one of those that they combine with the module.
    """

    about = MethodInfo(
        "channels weighed by what distinguishes the classes of a task",
        paper="CTM, Li et al., CVPR 2019",
        takes="maps",
        every_shot=True,
        trained=True,
    )

    def __init__(self, dim: int, temperature: float = 1.0) -> None:
        super().__init__(dim, negative_squared_euclidean, temperature)
        self.concentrator, self.reshaper = _block(dim, dim), _block(dim, dim)
        self.projector = _block(2 * dim, dim)[:2]

    def forward(self, support: ShotMaps, query: QueryMaps, mask: Mask = None) -> Logits:
        weights = self._weights(support, mask).flatten(1).unsqueeze(1)
        means = prototypes(_applied(self.reshaper, support), mask).flatten(2)
        queries = _applied(self.reshaper, query).flatten(2)
        places = means.shape[2] // self.dim
        return self.similarity(queries * weights, means * weights) / (places * self.temperature)

    def _weights(
        self, support: Float[Tensor, "T N K H W D"], mask: Bool[Tensor, "T N K"] | None
    ) -> Float[Tensor, "T D H W"]:
        classes = prototypes(_applied(self.concentrator, support), mask)
        common = classes.mean(dim=1)
        spread = (classes - common.unsqueeze(1)).square().mean(dim=1)
        projected: Tensor = self.projector(torch.cat([common, spread], dim=1))
        return projected.softmax(dim=1) * self.dim


def _applied(block: nn.Module, maps: Float[Tensor, "*batch H W D"]) -> Float[Tensor, "*batch D H W"]:
    """The output of the block for each map, channels first."""
    output: Tensor = block(channels_first(maps))
    return output.view(*maps.shape[:-3], *output.shape[1:])
