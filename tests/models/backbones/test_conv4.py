import pytest
import torch

from fewset.core.errors import UserError
from fewset.models.backbones.conv4 import Conv4

IMAGES = torch.rand(2, 3, 48, 48, generator=torch.Generator().manual_seed(0))


def test_the_pool_is_over_what_the_last_block_leaves() -> None:
    torch.manual_seed(0)
    maximum, average = Conv4(dim=5).eval(), Conv4(dim=5, pool="average").eval()
    average.load_state_dict(maximum.state_dict())
    left = maximum.blocks(IMAGES)
    assert left.shape == (2, 5, 3, 3)
    torch.testing.assert_close(maximum(IMAGES), left.flatten(2).max(dim=2).values)
    torch.testing.assert_close(average(IMAGES), left.flatten(2).sum(dim=2) / 9)


def test_fewer_halvings_leave_larger_maps_of_the_same_weights() -> None:
    sides = []
    for halvings in (4, 3, 2, 1):
        backbone = Conv4(dim=5, halvings=halvings).eval()
        backbone.load_state_dict(Conv4(dim=5).state_dict())
        sides.append(backbone.maps(IMAGES).shape[2:])
    assert sides == [(3, 3), (6, 6), (12, 12), (24, 24)]
    with pytest.raises(UserError, match="halvings is 5, expected 1 to 4"):
        Conv4(halvings=5)
