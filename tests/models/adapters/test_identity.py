import torch

from fewset.models.adapters.identity import Identity


def test_identity_is_identity() -> None:
    items = torch.randn(2, 3, 7)
    assert Identity(7)(items) is items
