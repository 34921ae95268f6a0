"""Seeds for initial weights and dropout, which draw from torch's global generators."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch

_CPU = torch.device("cpu")
_LOCK = RLock()  # all threads share the generators


@contextmanager
def seeded(seed: int, device: torch.device = _CPU) -> Iterator[None]:
    """Seed the generators of the CPU and of `device`, and leave them as they were before."""
    gpus = [device] if device.type == "cuda" else []
    with _LOCK, torch.random.fork_rng(gpus):
        torch.default_generator.manual_seed(seed)
        if gpus:
            torch.cuda.manual_seed(seed)
        yield
