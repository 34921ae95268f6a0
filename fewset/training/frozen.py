"""Meta-training on a backbone that stays as it is, or of which the first blocks do.

What the frozen part makes of an image is computed once, so thousands of tasks cost what a few do when all of
it learns. The first blocks of a ConvNet take most of its time, and a pre-training teaches them best.
"""

import hashlib
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor, nn

from fewset.compute import distributed
from fewset.compute.devices import send
from fewset.core.errors import UserError
from fewset.core.progress import progress
from fewset.core.randomness import Stream, mix
from fewset.data.images.augmentation import draw_flips
from fewset.data.images.store import ImageSet
from fewset.evaluation.embedding import embed_images, evaluating, temporary_table
from fewset.io.files import check_digest, digest_path, replacing_with_digest
from fewset.models.fingerprint import fingerprint
from fewset.models.layers.pooling import ChannelsLast
from fewset.models.model import FewShotModel
from fewset.models.task_model import device_of
from fewset.tasks.sampling import ClassIndex
from fewset.training.batches import TrainingItems
from fewset.training.episodic import TaskStage, TrainConfig, beside_backbone

_AT_ONCE = 512  # images


class FrozenTraining(TaskStage):
    """Tasks on a table of what the frozen part makes of the train split."""

    title = "meta-training on a frozen backbone"

    model: FewShotModel

    def __init__(self, model: FewShotModel, items: TrainingItems, config: TrainConfig, seed: int) -> None:
        front, self.back = _cut(model.backbone, config, model.capabilities.maps)
        learning, others = list(self.back.parameters()), beside_backbone(model)
        if not learning and not others:
            raise UserError(
                "this model has nothing to train but its backbone, which train.freeze_backbone keeps as it "
                "is; leave that out, or set train.epochs = 0 to score the model"
            )
        indices = items.train.index, items.val.index
        super().__init__(model, config, seed, *indices, learning, others)
        tabulate = partial(_tabulate, model, front, items.images)
        self.table = tabulate(items.train.rows)
        self.flipped = tabulate(items.train.rows, flipped=True) if config.augment else None
        rotations = (1, 2, 3) if config.rotation_classes else ()
        self.rotated = [tabulate(items.train.rows, rotation=rotation) for rotation in rotations]
        flips = (False, True) if model.test_time_flip else (False,)
        self.validation_tables = [
            [tabulate(items.val.rows, flipped=flipped, scale=scale) for flipped in flips]
            for scale in range(len(model.scales) or 1)
        ]

    def embed_validation(self) -> tuple[Float[Tensor, "items *places D"], ClassIndex]:
        with evaluating(self.back) as back:
            scales = [self._embed_flips(back, flips) for flips in self.validation_tables]
            return torch.stack(scales).mean(dim=0), self.validation_index

    def _embed_flips(self, back: nn.Module, flips: list[np.ndarray]) -> Float[Tensor, "items *places D"]:
        """The mean of what the images and their mirror images give; maps of these are mirrored back."""
        whole, *mirrored = (self._embed_table(back, table) for table in flips)
        if self.model.capabilities.maps:
            mirrored = [maps.flip(2) for maps in mirrored]
        embedded: Tensor = self.model.feature_transform(torch.stack([whole, *mirrored]).mean(dim=0))
        return embedded

    def embed_tasks(self, items: Int[np.ndarray, "T N KQ"], first: int) -> Float[Tensor, "T N KQ *places D"]:
        """From what the frozen part makes of the tasks' images, flipped and rotated where augmentation would.

        Images of rotation classes are not flipped as well, which would take as many tables again.
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
    """The frozen part as a backbone: what it makes of an image, channels last, is the embedding."""

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
    """The part that stays as it is, and the part that learns; both are the backbone's own modules."""
    if config.freeze_backbone:
        return (_Maps(backbone), ChannelsLast()) if maps else (backbone, nn.Identity())
    if not hasattr(backbone, "cut"):
        raise UserError(
            f"train.frozen_blocks is {config.frozen_blocks}, but {type(backbone).__name__} does not say what "
            "its blocks are; use backbone 'conv4', or train.freeze_backbone"
        )
    front, blocks = backbone.cut(config.frozen_blocks)
    return front, nn.Sequential(blocks, ChannelsLast() if maps else backbone.pool)


_tables: dict[str, Shaped[np.ndarray, " N *_"]] = {}  # of the frozen part that was used last


def _tabulate(
    model: FewShotModel,
    front: nn.Module,
    images: ImageSet,
    rows: Int[np.ndarray, " N"],
    *,
    flipped: bool = False,
    rotation: int = 0,
    scale: int = 0,
) -> Shaped[np.ndarray, " N *_"]:
    """What the frozen part makes of these rows of an image set; the runs of a process make it once.

    `scale` is a number into the model's scales, where it has any.
    """
    scales = model.scales[scale : scale + 1]
    frozen = _Front(model.backbone, front)
    part = fingerprint(front)
    pixels_of = f"{images.digest} {_digest(rows.tobytes())} {(flipped, rotation, *scales)}"
    name = f"{part} {frozen.input_size, frozen.mean, frozen.std} {pixels_of}"
    if name not in _tables:
        if not all(other.startswith(part) for other in _tables):
            _tables.clear()
        whole = FewShotModel(frozen, nn.Identity(), nn.Identity(), scales=scales)
        pixels = images.images[:, :, ::-1] if flipped else images.images
        _tables[name] = _compute(whole, front, np.rot90(pixels, rotation, (1, 2)), rows, name)
    return _tables[name]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _compute(
    frozen: FewShotModel,
    front: nn.Module,
    pixels: UInt8[np.ndarray, "all H W 3"],
    rows: Int[np.ndarray, " N"],
    name: str,
) -> Shaped[np.ndarray, " N *_"]:
    """Embeddings as they are; the far larger outputs of blocks in half precision, in a file.

    The file is temporary, or kept in the directory `$FEWSET_TABLES` for other processes and later runs.
    """
    device, size = device_of(frozen), frozen.input_size
    with evaluating(front) as evaluated:
        _, *shape = evaluated(torch.zeros(1, 3, size, size, device=device)).shape
    if len(shape) == 1:
        return embed_images(frozen, pixels, rows, title="embedding").cpu().numpy()
    channels, height, width = shape
    size_of_table = len(rows), height, width, channels
    kept = os.environ.get("FEWSET_TABLES")
    if not kept or distributed.world_size() > 1:  # several would have to agree on whether it is there
        table = temporary_table(size_of_table)
        _fill(table, frozen, pixels, rows)
        return table
    path = Path(kept) / f"{_digest(name.encode())}.npy"
    if not _is_whole(path):
        with replacing_with_digest(path) as temporary:
            table = np.lib.format.open_memmap(temporary, "w+", np.float16, size_of_table)
            _fill(table, frozen, pixels, rows)
            table.flush()
    return np.load(path, mmap_mode="c")  # type: ignore[no-any-return]


def _is_whole(path: Path) -> bool:
    """Whether a table that was kept is what was written."""
    if not (path.exists() and digest_path(path).exists()):
        return False
    try:
        check_digest(path)
    except UserError:
        return False
    return True


def _fill(
    table: Shaped[np.ndarray, " N *_"],
    frozen: FewShotModel,
    pixels: UInt8[np.ndarray, "all H W 3"],
    rows: Int[np.ndarray, " N"],
) -> None:
    with progress("frozen blocks", len(rows)) as advance:
        for start in range(0, len(rows), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            made = embed_images(frozen, pixels, rows[some]).cpu().numpy()
            table[some] = made.reshape(-1, *table.shape[1:])
            advance(len(rows[some]))
