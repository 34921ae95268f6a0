"""A digest of all that determines what a network computes: its code, its options and its numbers.

For what is kept of a network's outputs: weights alone do not tell a maximum from an average behind them.
"""

import hashlib
import inspect
import io
import pickle
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from torch import nn

_OF_TORCH = frozenset(vars(nn.Module()))  # what any module has: its mode, its parts, its numbers, hooks


def fingerprint(network: nn.Module) -> str:
    """Two networks of the same fingerprint make the same of the same input, in the same mode.

    The other way round it is no promise: an option that cannot be described, such as a lambda, makes every
    network that has it unlike any other.
    """
    digest = hashlib.sha256()
    for name, part in network.named_modules():
        digest.update(_described((name, _code(type(part)))))
        options = sorted((key, value) for key, value in vars(part).items() if key not in _OF_TORCH)
        numbers = (*part.named_parameters(recurse=False), *part.named_buffers(recurse=False))
        for key, value in (*options, *numbers):
            digest.update(_described(key))
            digest.update(_described(value))
    return digest.hexdigest()


def _described(value: object) -> bytes:
    """A value as bytes, which go into the digest and nowhere else."""
    buffer = io.BytesIO()
    try:
        _Pickler(buffer).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError):
        return uuid4().bytes
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """The numbers of a tensor; where they are in memory does not count."""
        return (torch.as_tensor, (value.numpy(force=True),)) if torch.is_tensor(value) else NotImplemented


def _code(kind: type[nn.Module]) -> tuple[str, str, str]:
    """Where a class comes from, and the digest of that file: one's own backbone may change between runs."""
    try:
        source = Path(inspect.getfile(kind)).read_bytes()
    except (OSError, TypeError):
        source = uuid4().bytes
    return kind.__module__, kind.__qualname__, hashlib.sha256(source).hexdigest()
