"""Seeds for initial weights and dropout, which draw from torch's global generators."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch

_CPU = torch.device("cpu")
_LOCK = RLock()  # all threads share the generators


def _forget_other_threads() -> None:
    """In a forked process the thread that held the lock is missing, and nobody would release it."""
    global _LOCK
    _LOCK = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


@contextmanager
def seeded(seed: int, device: torch.device = _CPU) -> Iterator[None]:
    """Seed the generators of the CPU and of `device`, and leave them as they were before."""
    gpus = [device] if device.type == "cuda" else []
    with _LOCK, torch.random.fork_rng(gpus):
        torch.default_generator.manual_seed(seed)
        if gpus:
            torch.cuda.manual_seed(seed)
        yield
