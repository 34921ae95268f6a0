"""The encoder that a preprocessing and a network make, whatever the network is computed with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

from fewset.models.preprocessing import PilImage, Preprocessing
from fewset.runtime.devices import send

_BATCH_PIXELS = 2**20  # embedded at once: 20 images of 224 pixels a side


@dataclass(frozen=True)
class NetworkEncoder:
    """Meets the contract of `Encoder`; the network maps normalised images (B, 3, H, W) to (B, `dim`)."""

    id: str
    dim: int
    digest: str
    preprocessing: Preprocessing
    network: Callable[[Tensor], Tensor] = field(repr=False)
    device: torch.device

    @property
    def input_size(self) -> int:
        size = self.preprocessing
        return size.shorter or max(size.height, size.width)

    @torch.inference_mode()
    def __call__(self, images: Sequence[PilImage]) -> Float32[np.ndarray, "n D"]:
        rows = np.empty((len(images), self.dim), dtype=np.float32)
        batch = max(1, _BATCH_PIXELS // (self.preprocessing.height * self.preprocessing.width))
        factor, summand = (
            torch.tensor(values, device=self.device).view(1, 3, 1, 1)
            for values in self.preprocessing.affine()
        )
        for start in range(0, len(images), batch):
            stop = min(start + batch, len(images))
            pixels = np.stack([self.preprocessing.pixels(images[index]) for index in range(start, stop)])
            # Pixels lie together, their channels last, and stay so: the layout of fast convolutions.
            prepared = send(torch.from_numpy(pixels), self.device).permute(0, 3, 1, 2)
            rows[start:stop] = self.network(prepared.mul(factor).add_(summand)).cpu().numpy()
        return rows
