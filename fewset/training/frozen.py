"""Meta-training with a frozen backbone, or with its first blocks frozen.

The frozen part is computed once for each image, so thousands of tasks take as long as a few tasks in which
all of the backbone learns. The first blocks of a ConvNet take most of its time, and pre-training teaches them
best.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor, nn

from fewset.compute.devices import send
from fewset.core.errors import UserError
from fewset.core.progress import progress
from fewset.core.randomness import Stream, mix
from fewset.data.images.augmentation import draw_flips
from fewset.evaluation.embedding import embed_images, evaluating, temporary_table
from fewset.models.layers.pooling import ChannelsLast
from fewset.models.model import FewShotModel
from fewset.models.task_model import device_of
from fewset.tasks.sampling import ClassIndex
from fewset.training.batches import TrainingItems
from fewset.training.episodic import TaskStage, TrainConfig, beside_backbone

_AT_ONCE = 512  # images


class FrozenTraining(TaskStage):
    """Tasks that gather from a table of the frozen part's outputs for the train split."""

    title = "meta-training on a frozen backbone"

    model: FewShotModel

    def __init__(self, model: FewShotModel, items: TrainingItems, config: TrainConfig, seed: int) -> None:
        front, self.back = _cut(model.backbone, config, model.capabilities.maps)
        learning, others = list(self.back.parameters()), beside_backbone(model)
        if not learning and not others:
            raise UserError(
                "this model has nothing to train but its backbone, and train.freeze_backbone freezes that; "
                "leave it out, or set train.epochs = 0 to score the model"
            )
        indices = items.train.index, items.val.index
        super().__init__(model, config, seed, *indices, learning, others)
        frozen = _Front(model.backbone, front)
        train, images = items.train.rows, items.images.images
        mirrored = images[:, :, ::-1]
        self.table = _tabulate(frozen, images, train)
        self.flipped = _tabulate(frozen, mirrored, train) if config.augment else None
        quarters = (1, 2, 3) if config.rotation_classes else ()
        self.rotated = [_tabulate(frozen, np.rot90(images, each, (1, 2)), train) for each in quarters]
        views = [images, mirrored] if model.test_time_flip else [images]
        self.validation_tables = [_tabulate(frozen, pixels, items.val.rows) for pixels in views]

    def embed_validation(self) -> tuple[Float[Tensor, "items *places D"], ClassIndex]:
        """The mean over images and, with `test_time_flip`, mirror images, whose maps are mirrored back."""
        with evaluating(self.back) as back:
            whole, *mirrored = (self._embed_table(back, table) for table in self.validation_tables)
        if self.model.capabilities.maps:
            mirrored = [maps.flip(2) for maps in mirrored]
        embedded: Tensor = self.model.feature_transform(torch.stack([whole, *mirrored]).mean(dim=0))
        return embedded, self.validation_index

    def embed_tasks(self, items: Int[np.ndarray, "T N KQ"], first: int) -> Float[Tensor, "T N KQ *places D"]:
        """The embeddings of the tasks' images, some of them flipped or rotated, from the tables.

        Images of rotation classes are not flipped as well: that would take three more tables.
        """
        flat = items.reshape(-1)
        rows: np.ndarray = self.table[flat]
        if self.flipped is not None:
            seeds = (mix(self.seed, task, Stream.AUGMENTATION) for task in range(first, first + len(items)))
            drawn = [draw_flips(items[0].size, torch.Generator().manual_seed(seed)) for seed in seeds]
            chosen = torch.cat(drawn).numpy()
            rows[chosen] = self.flipped[flat[chosen]]
        if self.rotated:
            rotations = self.draw_rotations(first, items.shape).numpy()
            for quarters, table in enumerate(self.rotated, start=1):
                chosen = rotations == quarters
                rows[chosen] = table[flat[chosen]]
        embedded: Tensor = self.model.feature_transform(self._embed(self.back, rows))
        return embedded.view(*items.shape, *embedded.shape[1:])

    def _embed_table(
        self, back: nn.Module, table: Shaped[np.ndarray, " N *_"]
    ) -> Float[Tensor, "N *places D"]:
        starts = range(0, len(table), _AT_ONCE)
        return torch.cat([self._embed(back, table[start : start + _AT_ONCE]) for start in starts])

    def _embed(self, back: nn.Module, rows: Shaped[np.ndarray, " B *_"]) -> Float[Tensor, "B *places D"]:
        inputs = send(torch.from_numpy(np.asarray(rows)), device_of(self.model)).float()
        embedded: Tensor = back(inputs.permute(0, 3, 1, 2) if inputs.ndim == 4 else inputs)
        return embedded


class _Front(nn.Module):
    """The frozen part as a backbone: its output for an image, channels last, is the embedding."""

    def __init__(self, backbone: Any, front: nn.Module) -> None:
        super().__init__()
        self.front, self.input_size = front, backbone.input_size
        self.mean, self.std = backbone.mean, backbone.std

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B D"]:
        output: Tensor = self.front(images)
        return output.permute(0, 2, 3, 1).flatten(1) if output.ndim == 4 else output


class _Maps(nn.Module):
    """A backbone without its pool."""

    def __init__(self, backbone: Any) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B D h w"]:
        maps: Tensor = self.backbone.maps(images)
        return maps


def _cut(backbone: Any, config: TrainConfig, maps: bool) -> tuple[nn.Module, nn.Module]:
    """The frozen part and the part that learns; both are the backbone's own modules."""
    if config.freeze_backbone:
        return (_Maps(backbone), ChannelsLast()) if maps else (backbone, nn.Identity())
    if not hasattr(backbone, "cut"):
        raise UserError(
            f"train.frozen_blocks is {config.frozen_blocks}, but {type(backbone).__name__} does not say "
            "what its blocks are; use backbone 'conv4', or train.freeze_backbone"
        )
    front, blocks = backbone.cut(config.frozen_blocks)
    return front, nn.Sequential(blocks, ChannelsLast() if maps else backbone.pool)


def _tabulate(
    frozen: _Front, pixels: UInt8[np.ndarray, "all H W 3"], rows: Int[np.ndarray, " N"]
) -> Shaped[np.ndarray, " N *_"]:
    """The outputs of the frozen part for these rows: embeddings, or those of blocks, channels last.

    The outputs of blocks are far larger than embeddings, so they are kept in half precision, in a temporary
    file.
    """
    model, size = FewShotModel(frozen, nn.Identity(), nn.Identity()), frozen.input_size
    with evaluating(frozen.front) as front:
        _, *shape = front(torch.zeros(1, 3, size, size, device=device_of(frozen))).shape
    if len(shape) == 1:
        return embed_images(model, pixels, rows, title="embedding").cpu().numpy()
    channels, height, width = shape
    table = temporary_table((len(rows), height, width, channels))
    with progress("frozen blocks", len(rows)) as advance:
        for start in range(0, len(rows), _AT_ONCE):
            chosen = slice(start, start + _AT_ONCE)
            outputs = embed_images(model, pixels, rows[chosen]).cpu().numpy()
            table[chosen] = outputs.reshape(-1, *table.shape[1:])
            advance(len(outputs))
    return table
