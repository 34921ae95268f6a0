"""The membership of an episode's shots."""

import torch

from fewset.models.regression import episode_membership


def test_an_episode_is_a_task_in_class_major_order() -> None:
    support = torch.zeros(2, 3, 5, 7)
    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    mask[1, 2, 3] = False
    members = episode_membership(support, mask)
    assert members.shape == (2, 15, 3)
    assert members.sum(dim=1).tolist() == [[5, 5, 5], [5, 5, 4]]
    assert not members[1, 13].any()
