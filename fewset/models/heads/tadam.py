"""TADAM: a block of the network is conditioned on the task, and the metric has a learned scale."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.models.heads import Logits, Mask, QueryMaps, ShotMaps, at_least, register_head
from fewset.models.layers.pooling import channels_first
from fewset.models.method_info import MethodInfo
from fewset.models.similarity import negative_squared_euclidean
from fewset.tasks.episode import prototypes

_LAYERS = 2  # of the block


class TaskConditioning(nn.Module):
    """From the embedding c of a task to a scale and shift of the channels of a layer: x ← (1 + γ) x + β.

    γ = γ₀ g(c) and β = β₀ h(c), each from a network of its own, D -> `hidden` -> D; γ₀ and β₀ are learned
    for each channel and start at `start`, so that a task changes little at first.
    """

    def __init__(self, dim: int, hidden: int, start: float) -> None:
        super().__init__()
        self.networks = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim)) for _ in range(2)
        )
        self.strengths = nn.Parameter(torch.full((2, dim), start))

    def forward(self, task: Float[Tensor, "T D"]) -> Float[Tensor, "2 T D"]:
        made = torch.stack([network(task) for network in self.networks])
        return made * self.strengths.unsqueeze(1)


@register_head("tadam")
class TadamHead(nn.Module):
    """Task-dependent adaptive metric (Oreshkin et al., 2018), on maps; `average="post"`, to be trained.

    A residual block (two convolutions 3 x 3 with BatchNorm, ReLU between and behind) and the mean over the
    places embed each map, z = f(x). The embedding of a task is the mean of its class means, c = mean_n mean_k
    f(s_nk). From c, task conditioning gives γ and β of both layers of the block, by which everything is
    embedded again, z' = f(x; γ, β). The logit is -α ‖z'_q - mean_k z'_nk‖² / D with a learned scale α.

    The paper's auxiliary task, the classes of the train split, is `train.auxiliary` of the recipe; it learns
    on f without conditioning.

    Deviations: the paper conditions every block of its ResNet-12; here it is one block behind any backbone,
    so that images are embedded once and not once a task. The strengths γ₀ and β₀ are penalised by the weight
    decay of the recipe. Distances are divided by D, so that α starts alike for any backbone.
    """

    about = MethodInfo(
        "a block conditioned on the task, and a scaled metric",
        paper="TADAM, Oreshkin et al., NeurIPS 2018",
        takes="maps",
        every_shot=True,
        trained=True,
    )

    def __init__(self, dim: int, hidden: int = 64, scale: float = 10.0, start: float = 0.1) -> None:
        super().__init__()
        at_least(1, hidden=hidden)
        self.dim = dim
        self.convolutions = nn.ModuleList(
            nn.Conv2d(dim, dim, 3, padding=1, bias=False) for _ in range(_LAYERS)
        )
        self.normalisations = nn.ModuleList(nn.BatchNorm2d(dim) for _ in range(_LAYERS))
        self.conditioning = nn.ModuleList(TaskConditioning(dim, hidden, start) for _ in range(_LAYERS))
        self.scale = nn.Parameter(torch.tensor(scale))

    def forward(self, support: ShotMaps, query: QueryMaps, mask: Mask = None) -> Logits:
        shots = support.flatten(1, 2)
        task = prototypes(self.embed(shots).view(*support.shape[:3], -1), mask).mean(dim=1)
        conditions = [layer(task) for layer in self.conditioning]
        embedded = self.embed(torch.cat([shots, query], dim=1), conditions)
        classes = prototypes(embedded[:, : shots.shape[1]].reshape(*support.shape[:3], -1), mask)
        similarity = negative_squared_euclidean(embedded[:, shots.shape[1] :], classes)
        return self.scale / self.dim * similarity

    def embed(
        self,
        maps: Float[Tensor, "T S H W D"],
        conditions: list[Float[Tensor, "2 T D"]] | None = None,
    ) -> Float[Tensor, "T S D"]:
        """The embeddings of the maps of sets, conditioned on their tasks if conditions are given."""
        tasks, items = maps.shape[:2]
        start = made = channels_first(maps)
        layers = zip(self.convolutions, self.normalisations, strict=True)
        for number, (convolution, normalisation) in enumerate(layers):
            made = normalisation(convolution(made if number == 0 else F.relu(made)))
            if conditions is not None:
                gamma, beta = conditions[number].repeat_interleave(items, dim=1)[..., None, None]
                made = (1 + gamma) * made + beta
        return F.relu(start + made).mean(dim=(2, 3)).view(tasks, items, -1)
