import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fewset.data.images import inspection
from fewset.data.images.inspection import KNOWN, Known, contact_sheet, warnings_for
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
    gap, text = inspection._GAP, inspection._TEXT
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


def make(
    classes: tuple[int, int, int] = (3, 2, 2),
    each: int = 5,
    *,
    name: str = "birds",
    source: str = "toy /somewhere",
    source_size: dict[str, int] | None = None,
    labels: Sequence[int] | None = None,
    splits: Sequence[int] | None = None,
) -> ImageSet:
    per_class = np.arange(sum(classes)).repeat(each)
    columns: dict[str, Any] = {
        "labels": per_class if labels is None else np.array(labels),
        "splits": np.repeat([0, 1, 2], classes).repeat(each) if splits is None else np.array(splits),
    }
    names = [f"c{number}" for number in range(columns["labels"].max() + 1)]
    with write_store(set_path(name), size=7, class_names=names, source=source, **columns) as draft:
        draft.source_size = source_size
    return open_set(name)


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN, "toy", Known((3, 2, 2), 35, each=5, side=13))


def test_nothing_to_say() -> None:
    assert warnings_for(make(source_size={"smallest": 3, "median": 13})) == []
    assert warnings_for(make()) == []


@pytest.mark.parametrize("names", [{"source": "toy /somewhere"}, {"source": "csv /somewhere", "name": "toy"}])
def test_wrong_numbers_of_a_known_set(names: dict[str, str]) -> None:
    assert warnings_for(make((3, 1, 2), **names)) == [  # type: ignore[arg-type]
        "3 / 1 / 2 classes (train / val / test), expected 3 / 2 / 2",
        "30 items, expected 35",
    ]


def test_classes_of_different_sizes() -> None:
    labels = np.arange(7).repeat([5, 5, 4, 6, 5, 5, 5])
    splits = np.repeat([0, 1, 2], [14, 11, 10])
    assert warnings_for(make(labels=labels.tolist(), splits=splits.tolist())) == [
        "2 classes do not have 5 items: c2, c3"
    ]


def test_copies_instead_of_the_originals() -> None:
    (line,) = warnings_for(make(source_size={"smallest": 3, "median": 12}))
    assert line.startswith("the source images are 12 px (median of the shorter side): copies")


def test_enlarged_images() -> None:
    (line,) = warnings_for(make(source="folder /x", source_size={"smallest": 3, "median": 6}))
    assert line.startswith("most source images are smaller (6 px")
    assert line.endswith("than the stored 7 px: they were enlarged")
    assert warnings_for(make(source="folder /x", source_size={"smallest": 3, "median": 7})) == []
