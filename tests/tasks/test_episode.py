import numpy as np
import pytest
import torch

from fewset.core.errors import UserError
from fewset.tasks.episode import prototypes, split


def test_split_is_class_major() -> None:
    tasks, way, shot, query = 2, 3, 5, 7
    # Every item carries its own (task, class, position).
    grid = torch.stack(
        torch.meshgrid(torch.arange(tasks), torch.arange(way), torch.arange(shot + query), indexing="ij"),
        dim=-1,
    )
    episode = split(grid, shot)
    assert episode.support.shape == (tasks, way, shot, 3)
    assert episode.query.shape == (tasks, way * query, 3)
    for task in range(tasks):
        for place in range(way * query):
            expected = [task, place // query, shot + place % query]
            assert episode.query[task, place].tolist() == expected
            assert episode.query_labels[task, place] == expected[1]


@pytest.mark.parametrize("shot", [0, 5, 6])
def test_split_rejects_a_shot_that_leaves_nothing(shot: int) -> None:
    with pytest.raises(UserError, match=f"shot is {shot}"):
        split(torch.zeros(1, 2, 5), shot)


def test_prototypes_against_a_loop() -> None:
    support = np.random.default_rng(0).normal(size=(2, 3, 5, 7))
    found = prototypes(torch.from_numpy(support)).numpy()
    for task in range(2):
        for way in range(3):
            np.testing.assert_allclose(found[task, way], sum(support[task, way]) / 5, rtol=1e-12)


def test_masked_prototypes_are_those_of_fewer_shots() -> None:
    support = torch.randn(2, 3, 5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    counts = torch.tensor([[1, 2, 5], [3, 4, 1]])
    mask = torch.arange(5) < counts[..., None]
    found = prototypes(support, mask)
    for task in range(2):
        for way in range(3):
            expected = support[task, way, : counts[task, way]].mean(0)
            torch.testing.assert_close(found[task, way], expected)
