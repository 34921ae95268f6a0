"""An encoder from a preprocessing and a network, whatever library computes the network."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import ceil

import numpy as np
import torch
from jaxtyping import Float, Float32, UInt8
from torch import Tensor

from fewset.compute.devices import send
from fewset.core.errors import UserError
from fewset.encoders import FEW
from fewset.encoders.preprocessing import PilImage, Preprocessing

_BATCH_PIXELS = 2**20  # embedded at once: 20 images of 224 pixels a side


@dataclass(frozen=True)
class NetworkEncoder:
    """A `ThreadedEncoder`, whose network maps normalised images (B, 3, H, W) to (B, `dim`)."""

    id: str
    dim: int
    digest: str
    preprocessing: Preprocessing
    network: Callable[[Tensor], Tensor] = field(repr=False)
    device: torch.device
    threads: int = 1
    """More than one for a network that computes in the thread that calls it (`ThreadedEncoder`)."""

    @property
    def input_size(self) -> int:
        return self.preprocessing.least

    def __call__(self, images: Sequence[PilImage]) -> Float32[np.ndarray, "n D"]:
        rows = np.empty((len(images), self.dim), dtype=np.float32)

        def embed(batch: range) -> None:
            rows[batch.start : batch.stop] = self._embed([images[index] for index in batch])

        batches = self._batches(len(images))
        if min(self.threads, len(batches)) <= 1:
            for batch in batches:
                embed(batch)
            return rows
        pool = ThreadPoolExecutor(self.threads)
        try:
            list(pool.map(embed, batches))
        finally:  # Ctrl-C must not wait for the rest of the images
            pool.shutdown(cancel_futures=True)
        return rows

    def _batches(self, count: int) -> list[range]:
        """The images that are embedded at once, equally many for each thread."""
        if self.threads == 1:
            most = max(1, _BATCH_PIXELS // (self.preprocessing.height * self.preprocessing.width))
        else:
            rounds = ceil(count / (FEW * self.threads))
            most = FEW if count <= FEW else ceil(count / (rounds * self.threads))
        return [range(start, min(start + most, count)) for start in range(0, count, most)]

    @torch.inference_mode()
    def _embed(self, images: Sequence[PilImage]) -> Float32[np.ndarray, "n D"]:
        pixels = np.stack([self.preprocessing.pixels(image) for image in images])
        return self.network(normalise(pixels, self.preprocessing, self.device)).cpu().numpy()


def normalise(
    pixels: UInt8[np.ndarray, "B H W 3"], preprocessing: Preprocessing, device: torch.device
) -> Float[Tensor, "B 3 H W"]:
    """Pixels as the network's input; channels stay last in memory, the layout of fast convolutions."""
    factor, summand = (
        torch.tensor(values, device=device).view(1, 3, 1, 1) for values in preprocessing.affine()
    )
    return send(torch.from_numpy(pixels), device).permute(0, 3, 1, 2).mul(factor).add_(summand)


@torch.inference_mode()
def tried(
    network: Callable[[Tensor], Tensor], preprocessing: Preprocessing, device: torch.device, source: object
) -> int:
    """The dimension of the rows of a network of others, tried on two images, together and each alone.

    The features of an image must be the same every time, beside any other image.
    """
    noise = np.random.default_rng(0).integers(256, size=(2, preprocessing.height, preprocessing.width, 3))
    images = normalise(noise.astype(np.uint8), preprocessing, device)
    try:
        first, *alone = network(images), network(images[:1]), network(images[1:])
    except UserError:
        raise
    except Exception as error:  # a network of others may raise anything
        reason = " ".join(str(error).split())
        size = f"{preprocessing.height} x {preprocessing.width}"
        raise UserError(f"{source} does not embed an image of {size} pixels: {reason}") from error
    if first.ndim != 2 or len(first) != 2:
        raise UserError(f"{source} gives {tuple(first.shape)} for two images, expected two rows of features")
    if not (first.isfinite().all() and torch.allclose(first, torch.cat(alone), rtol=1e-3, atol=1e-3)):
        raise UserError(
            f"{source} gives an image other features each time or beside other images, or no finite ones"
        )
    return first.shape[1]
