import io

import numpy as np
from PIL import Image

from fewset.data.images import contact_sheet as sheets
from fewset.data.images.contact_sheet import contact_sheet
from fewset.data.images.store import ImageSet, open_set, set_path, write_store


def colours(classes: int = 11, each: int = 5, size: int = 13) -> ImageSet:
    """Items of one colour each: red is the class, green the item. The splits are in another order."""
    labels = np.arange(classes).repeat(each)
    names = [f"class {number} 日本" for number in range(classes)]
    with write_store(
        set_path("colours"),
        size=size,
        labels=labels,
        class_names=names,
        splits=2 - labels % 3,
        source="a test",
    ) as draft:
        for row, label in enumerate(labels):
            draft.images[row] = [20 * label, 40 * (row % each), 99]
    return open_set("colours")


def shown(data: bytes, rows: int, columns: int, side: int) -> np.ndarray:
    """The colour in the middle of each place of the sheet."""
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == "PNG"
        pixels = np.asarray(image)
    gap, text = sheets._GAP, sheets._TEXT
    assert pixels.shape == (rows * (side + gap + text) + gap, columns * (side + gap) + gap, 3)
    tops = np.arange(rows) * (side + gap + text) + gap + text + side // 2
    lefts = np.arange(columns) * (side + gap) + gap + side // 2
    return pixels[tops[:, None], lefts]


def test_every_class_in_the_order_of_the_splits() -> None:
    got = shown(contact_sheet(colours(), per_class=5), rows=11, columns=5, side=13)
    order = sorted(range(11), key=lambda label: (2 - label % 3, label))
    np.testing.assert_array_equal(got[..., 0], np.repeat([[20 * label] for label in order], 5, axis=1))
    np.testing.assert_array_equal(got[..., 1], [[0, 40, 80, 120, 160]] * 11)


def test_classes_and_items_are_spread_evenly() -> None:
    got = shown(contact_sheet(colours(), classes=3, per_class=3), rows=3, columns=3, side=13)
    order = sorted(range(11), key=lambda label: (2 - label % 3, label))
    assert (got[:, 0, 0] // 20).tolist() == [order[0], order[5], order[10]]
    assert (got[0, :, 1] // 40).tolist() == [0, 2, 4]


def test_places_without_an_image_stay_white() -> None:
    got = shown(contact_sheet(colours(each=2), per_class=3), rows=11, columns=3, side=13)
    assert (got[:, 2] == 255).all()
    assert (got[:, :2, 2] == 99).all()


def test_large_images_are_made_smaller() -> None:
    got = shown(contact_sheet(colours(classes=3, size=200), per_class=2), rows=3, columns=2, side=96)
    assert (got[..., 2] == 99).all()


def test_no_chance_in_it() -> None:
    images = colours()
    assert contact_sheet(images) == contact_sheet(images)
