"""Embed the images of a set once: a table of embeddings that any number of tasks gather from.

Maps are many times as large as embeddings. Their table is in half precision and, on the CPU, in a file.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float16, Int, Shaped, UInt8
from torch import Tensor, nn

from fewset.compute import distributed
from fewset.compute.devices import send
from fewset.core.errors import UserError
from fewset.core.progress import progress
from fewset.data.images.augmentation import center_crop
from fewset.models.task_model import TaskModel, device_of

Module = TypeVar("Module", bound=nn.Module)

_BATCH_PIXELS = 2**19  # embedded at once: 74 images of 84 pixels a side, 668 of 28


@contextmanager
def evaluating(model: Module) -> Iterator[Module]:
    """The model in evaluation mode, without gradients.

    The model itself keeps its mode, since another thread may train or evaluate it meanwhile: a model that is
    in training mode is copied, and the copy shares its parameters and buffers.
    """
    if any(module.training for module in model.modules()):
        shared = {id(value): value for value in (*model.parameters(), *model.buffers())}
        model = deepcopy(model, shared).eval()  # the memo: what is not copied
    with torch.inference_mode():
        yield model


def embed_images(
    model: TaskModel,
    images: UInt8[np.ndarray, "all H W 3"],
    rows: Int[np.ndarray, " items"],
    batch: int | None = None,
    title: str = "",
) -> Shaped[Tensor, "items *places D"]:
    """The embeddings of rows of an image store, or the maps or pixels that the model's tasks are made of.

    Several processes each embed a part of the batches.

    Args:
        model: The model, on the device that computes.
        images: The images, such as `ImageSet.images`, which may be a memory map.
        rows: The indices of the images to embed.
        batch: The number of images in memory at once; by default it depends on their size.
        title: The title of a progress bar; without one there is none.

    Returns:
        The rows, on the device of the model.

    Raises:
        ValueError: There are no rows.

    Example:
        >>> import fewset
        >>> import numpy as np
        >>> model = fewset.load("miniimagenet-conv4-feat-1shot")
        >>> images = np.zeros((3, 84, 84, 3), dtype=np.uint8)
        >>> tuple(fewset.embed_images(model, images, np.arange(3)).shape)
        (3, 64)
    """
    if not len(rows):
        raise UserError("there are no images to embed")
    device = device_of(model)
    batch = batch or max(1, _BATCH_PIXELS // model.input_size**2)
    first, last = distributed.shard(len(rows), batch)

    def load(chosen: Int[np.ndarray, " some"]) -> UInt8[Tensor, "some 3 size size"]:
        pixels = send(torch.from_numpy(images[chosen]), device).permute(0, 3, 1, 2)
        return center_crop(pixels, model.input_size)

    with evaluating(model) as evaluated, progress(title, last - first, shown=bool(title)) as advance:
        folded = evaluated.folded(load(rows[:2]))  # tried on the same images in every process
        table: Tensor | None = None
        for start, end in distributed.own_chunks(len(rows), batch):
            chosen = rows[start:end]
            items = folded.items_of(load(chosen))
            if table is None:
                table = _empty_table(last - first, items)
            place = slice(start - first, start - first + len(chosen))
            table[place] = items
            if table.dtype == torch.float16 and not table[place].isfinite().all():
                raise UserError(
                    "the maps of this model exceed half precision (65,504); train it with weight decay, or "
                    "take a head on embeddings"
                )
            advance(len(chosen))
        assert table is not None
        return distributed.all_gather_rows(table, len(rows), batch)


def _empty_table(count: int, items: Shaped[Tensor, "B *places D"]) -> Shaped[Tensor, "count *places D"]:
    """Memory for `count` items; maps are in half precision and, on the CPU, in a file."""
    shape = (count, *items.shape[1:])
    if items.ndim == 2:
        return items.new_empty(shape)
    if items.device.type == "cpu":
        return torch.from_numpy(temporary_table(shape))
    return items.new_empty(shape, dtype=torch.float16)


def temporary_table(shape: Sequence[int]) -> Float16[np.ndarray, "..."]:
    """Memory for maps in half precision, in a file without a name that is deleted with the array."""
    with tempfile.TemporaryFile(prefix="fewset-") as file:
        return np.memmap(file, np.float16, "w+", shape=tuple(shape))
