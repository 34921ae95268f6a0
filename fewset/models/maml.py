"""MAML: a few gradient steps on the support adapt the whole network to its task (Finn et al., 2017)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from fewset.core.errors import UserError
from fewset.models.backbones import taken_by
from fewset.models.method_info import MethodInfo
from fewset.models.task_model import Capabilities, TaskModel
from fewset.tasks.episode import class_major_labels

Parameters = Mapping[str, Tensor]


@dataclass(frozen=True)
class MamlConfig:
    """The inner loop of MAML, in place of adapter and head: gradient descent on the support's cross-entropy.

    The first-order version takes the gradient of the query loss at the adapted weights as that at the initial
    ones.
    """

    steps: int = 5  # of gradient descent
    lr: float = 0.01  # their rate
    second_order: bool = True  # differentiate through the steps

    def __post_init__(self) -> None:
        if self.steps < 0 or self.lr <= 0:
            raise UserError(f"steps and lr are {self.steps} and {self.lr}, expected 0 or more and above 0")


def descend(
    network: Callable[[Parameters, Tensor], Tensor],
    parameters: Parameters,
    items: Shaped[Tensor, " B *item"],
    labels: Int[Tensor, " B"],
    steps: int,
    lr: float,
    second_order: bool,
) -> Parameters:
    """The parameters after some steps of gradient descent on the items' mean cross-entropy."""
    for _ in range(steps):
        loss = F.cross_entropy(network(parameters, items), labels)
        gradients = torch.autograd.grad(loss, tuple(parameters.values()), create_graph=second_order)
        parameters = {
            name: value - lr * gradient
            for (name, value), gradient in zip(parameters.items(), gradients, strict=True)
        }
    return parameters


class MamlModel(TaskModel):
    """A backbone and a linear layer over the classes of the task, both adapted to its support.

    Tasks are made of images, not of embeddings: the network that would embed them is known only with the
    task. There is neither an adapter nor a head.

    The linear layer starts from zero in each task, while Finn et al. learn where it starts. The order of
    the classes in a task means nothing, so their rows should start alike; and what is alike cancels in the
    softmax. Zero gives the order of the classes no weight, and tasks of any number of classes (the "zeroing
    trick" of Kao et al., 2022). The first inner step then changes this layer alone.

    BatchNorm keeps the statistics of the pre-training, also while training, so that a prediction depends on
    the support and its query alone, as with the other methods. A `transductive` model takes those of the
    current images, as MAML is usually run: of the support in the inner loop, of all queries after it.
    """

    about = MethodInfo(
        "gradient steps on the support adapt the whole network",
        paper="MAML, Finn et al., ICML 2017",
        takes="images",
        trained=True,
    )

    def __init__(self, backbone: nn.Module, config: MamlConfig, transductive: bool = False) -> None:
        super().__init__(backbone)
        self.config, self.transductive = config, transductive
        self.train()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(takes=taken_by(self.backbone), embeds=False, adapts=False)

    def train(self, mode: bool = True) -> "MamlModel":
        super().train(mode)
        for module in self.modules():
            if isinstance(module, _BatchNorm):
                module.train(self.transductive)
        return self

    def items_of(self, images: Shaped[Tensor, "B 3 H W"]) -> Shaped[Tensor, "B pixels"]:
        """Tasks gather the pixels, in a row; bytes stay bytes."""
        return images.flatten(1)

    def forward(
        self,
        support: Shaped[Tensor, "T N K pixels"],
        query: Shaped[Tensor, "T M pixels"],
        context: Shaped[Tensor, "T C pixels"] | None = None,
        mask: Bool[Tensor, "T N K"] | None = None,
    ) -> Float[Tensor, "T M N"]:
        """Logits from pixels; the inner loop computes gradients even if they are switched off outside."""
        if context is not None or mask is not None:
            raise UserError("MAML takes neither unlabelled items nor shots that differ by class")
        learning = torch.is_grad_enabled()
        with torch.inference_mode(False), torch.enable_grad():
            return torch.stack([self._task(*task, learning) for task in zip(support, query, strict=True)])

    def _task(
        self, support: Shaped[Tensor, "N K pixels"], query: Shaped[Tensor, "M pixels"], learning: bool
    ) -> Float[Tensor, "M N"]:
        way, shot = support.shape[:2]
        shots, queries = self._images(support.flatten(0, 1)), self._images(query)
        classifier = nn.Linear(self.backbone.dim, way, device="meta", dtype=shots.dtype)
        classifier = classifier.to_empty(device=shots.device)
        for parameter in classifier.parameters():
            nn.init.zeros_(parameter)
        network = nn.Sequential(self.backbone, classifier)
        # Copies, so that no task leaves a trace in BatchNorm's statistics.
        buffers = {name: value.clone() for name, value in network.named_buffers()}

        def logits(parameters: Parameters, images: Tensor) -> Tensor:
            result: Tensor = functional_call(network, {**parameters, **buffers}, (images,))
            return result

        parameters = {
            name: value if learning else value.detach().requires_grad_()
            for name, value in network.named_parameters()
        }
        labels = class_major_labels(1, way, shot, shots.device)[0]
        second_order = self.config.second_order and learning
        adapted = descend(logits, parameters, shots, labels, self.config.steps, self.config.lr, second_order)
        with torch.set_grad_enabled(learning):
            return logits(adapted, queries)

    def _images(self, pixels: Shaped[Tensor, "B pixels"]) -> Float[Tensor, "B 3 H W"]:
        images = pixels.clone().view(-1, 3, self.input_size, self.input_size)
        if images.dtype == torch.uint8:
            images = self.prepare(images)
        return images.contiguous(memory_format=torch.channels_last)
