"""Image sets that are distributed as arrays: random pixels for the labels of each split."""

import numpy as np

from fewset.data.images.decoding import decode
from fewset.data.images.store import SPLITS, ImageSet

Labels = dict[str, list[int]]  # by split; the images of a class need not lie together


def random_pixels(labels: Labels, split: str) -> np.ndarray:
    """An image of 84 x 84 for each label."""
    shape = (len(labels[split]), 84, 84, 3)
    return np.random.default_rng(len(split)).integers(0, 256, shape, dtype=np.uint8)


def assert_holds_arrays(got: ImageSet, labels: Labels, names: dict[str, list[str]]) -> None:
    """The items are the random pixels, sorted by split, class and place, with the names of their labels."""
    expected = [
        (number, names[split][label], place, image)
        for number, split in enumerate(SPLITS)
        for place, (label, image) in enumerate(zip(labels[split], random_pixels(labels, split), strict=True))
    ]
    expected.sort(key=lambda item: item[:3])
    assert got.splits.tolist() == [split for split, _, _, _ in expected]
    assert [got.class_names[label] for label in got.labels] == [name for _, name, _, _ in expected]
    np.testing.assert_array_equal(
        got.images, [decode(item[3], got.images.shape[1]).pixels for item in expected]
    )
