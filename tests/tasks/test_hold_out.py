import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.tasks.hold_out import hold_out
from tests.helpers.labels import shuffled_labels


def test_held_out_items_are_a_share_of_each_class() -> None:
    labels = np.random.default_rng(0).permutation(np.repeat([3, 5, 8], [600, 40, 13]))
    parts = hold_out(labels)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(653))
    for part, counts in zip(parts, [(450, 30, 10), (75, 5, 1), (75, 5, 2)], strict=True):
        assert (part == np.sort(part)).all()
        assert np.bincount(labels[part])[[3, 5, 8]].tolist() == list(counts)


def test_held_out_items_depend_on_the_seed_and_on_the_own_class_alone() -> None:
    labels = shuffled_labels([40, 40, 40])
    first, again, other = hold_out(labels), hold_out(labels), hold_out(labels, seed=1)
    for one, same, another in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, another)
    alone = hold_out(labels[labels == 13])
    for part, expected in zip(alone, first, strict=True):
        np.testing.assert_array_equal(np.flatnonzero(labels == 13)[part], expected[labels[expected] == 13])


@pytest.mark.parametrize("share", [0.0, 1.0, 0.1, 0.95])
def test_a_share_leaves_items_on_every_side(share: float) -> None:
    with pytest.raises(UserError, match="share"):
        hold_out(np.repeat([4], 7), share)
