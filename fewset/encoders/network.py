"""An encoder from a preprocessing and a network, whatever library computes the network."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float32, UInt8

from fewset.core.errors import UserError
from fewset.encoders import FEW
from fewset.encoders.preprocessing import PilImage, Preprocessing

_BATCH_PIXELS = 2**20  # embedded at once: 20 images of 224 pixels a side


@dataclass(frozen=True)
class NetworkEncoder:
    """A `ThreadedEncoder`, whose network maps normalised images (B, 3, H, W) to (B, `dim`), both in torch."""

    id: str
    dim: int
    digest: str
    preprocessing: Preprocessing
    network: Callable[[Any], Any] = field(repr=False)
    device: str
    threads: int = 1
    """More than one for a network that computes in the thread that calls it (`ThreadedEncoder`)."""

    @property
    def input_size(self) -> int:
        return self.preprocessing.least

    def __call__(self, images: Sequence[PilImage]) -> Float32[np.ndarray, "n D"]:
        rows = np.empty((len(images), self.dim), dtype=np.float32)

        def embed(batch: range) -> None:
            pixels = np.stack([self.preprocessing.pixels(images[index]) for index in batch])
            rows[batch.start : batch.stop] = self.rows(pixels)

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

    def rows(self, pixels: UInt8[np.ndarray, "B H W 3"]) -> np.ndarray:
        """The rows of images that are resized and cropped.

        Channels stay last in memory, the layout of fast convolutions.
        """
        import torch

        from fewset.compute.devices import send

        device = torch.device(self.device)
        with torch.inference_mode():
            factor, summand = (
                torch.tensor(values, device=device).view(1, 3, 1, 1) for values in self.preprocessing.affine()
            )
            images = send(torch.from_numpy(pixels), device).permute(0, 3, 1, 2).mul(factor).add_(summand)
            return np.asarray(self.network(images).cpu().numpy())

    def _batches(self, count: int) -> list[range]:
        """The images that are embedded at once, equally many for each thread."""
        if self.threads == 1:
            most = max(1, _BATCH_PIXELS // (self.preprocessing.height * self.preprocessing.width))
        else:
            rounds = ceil(count / (FEW * self.threads))
            most = FEW if count <= FEW else ceil(count / (rounds * self.threads))
        return [range(start, min(start + most, count)) for start in range(0, count, most)]


class ArrayEncoder(NetworkEncoder):
    """One whose network maps NumPy arrays, and so needs no torch."""

    def rows(self, pixels: UInt8[np.ndarray, "B H W 3"]) -> np.ndarray:
        """The rows of images that are resized and cropped."""
        factor, summand = (
            np.array(values, dtype=np.float32).reshape(3, 1, 1) for values in self.preprocessing.affine()
        )
        images = np.multiply(pixels.transpose(0, 3, 1, 2), factor, order="C")
        images += summand
        return np.asarray(self.network(images))


AnyEncoder = TypeVar("AnyEncoder", bound=NetworkEncoder)


def tried(encoder: AnyEncoder, source: object) -> AnyEncoder:
    """An encoder with the dimension of its rows, tried on two images, together and each alone.

    The features of an image must be the same every time, beside any other image.
    """
    height, width = encoder.preprocessing.height, encoder.preprocessing.width
    noise = np.random.default_rng(0).integers(256, size=(2, height, width, 3)).astype(np.uint8)
    try:
        first, *alone = encoder.rows(noise), encoder.rows(noise[:1]), encoder.rows(noise[1:])
    except UserError:
        raise
    except Exception as error:  # a network of others may raise anything
        reason = " ".join(str(error).split())
        size = f"{height} x {width}"
        raise UserError(f"{source} does not embed an image of {size} pixels: {reason}") from error
    if first.ndim != 2 or len(first) != 2:
        raise UserError(f"{source} gives {first.shape} for two images, expected two rows of features")
    if not (np.isfinite(first).all() and np.allclose(first, np.concatenate(alone), rtol=1e-3, atol=1e-3)):
        raise UserError(
            f"{source} gives an image other features each time or beside other images, or no finite ones"
        )
    return replace(encoder, dim=first.shape[1])
