"""The set of the demo: the same bytes everywhere, every factor visible, items around their classes."""

from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import Float, Int, UInt8

from fewset.data.images import families
from fewset.data.images.store import SPLITS, open_set

PICTURES = "06df217dadb602815a27d0b5ee97dd8929e91f5bed6d8b0cbb45750f6a019575"


def pictures(seed: int = 0, items: int = 5) -> UInt8[np.ndarray, "_ 32 32 3"]:
    """Some items of two classes, class by class."""
    return np.concatenate([families.render(seed, label, np.arange(items)) for label in (3, 17)])


def test_bytes_are_pinned() -> None:
    # If this fails on another machine or another NumPy, equal bytes are broken: mend the arithmetic.
    # If the set was changed on purpose, write the new digest here and say so in the changelog.
    assert sha256(pictures().tobytes()).hexdigest() == PICTURES


def test_an_item_depends_on_its_own_number_alone() -> None:
    together = families.render(0, 1, np.arange(7))
    for item in (6, 0, 3):
        np.testing.assert_array_equal(families.render(0, 1, np.array([item]))[0], together[item])


def test_classes_of_a_family_differ_in_one_aspect_and_share_the_rest() -> None:
    labels = np.arange(8 * families.MEMBERS).reshape(8, -1).tolist()
    for family, members in enumerate(labels):
        values = np.stack([families.class_values(0, label) for label in members])
        differ = {name for name, column in zip(families.FACTORS, values.T, strict=True) if np.ptp(column) > 0}
        assert differ == set(families.ASPECTS[families.aspect_of(family)])
    assert {families.aspect_of(family) for family in range(4)} == set(families.ASPECTS)


@pytest.mark.parametrize("factor", range(len(families.FACTORS)), ids=families.FACTORS)
def test_each_factor_shows_in_the_picture(factor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(value: float) -> Int[np.ndarray, "1 32 32 3"]:
        def values(seed: int, label: int) -> Float[np.ndarray, " factors"]:  # noqa: ARG001
            return value * (np.arange(len(families.FACTORS)) == factor)

        monkeypatch.setattr(families, "class_values", values)
        return families.render(0, 0, np.array([4])).astype(np.int64)

    low, middle, high = drawn(-1), drawn(0), drawn(1)
    for one, other in ((low, middle), (middle, high), (low, high)):
        assert np.abs(one - other).max() > 10


def test_layout_of_the_whole_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stamp(seed: int, label: int, items: Int[np.ndarray, " items"]) -> UInt8[np.ndarray, "items 32 32 3"]:
        """In place of a picture, what it should be of: rendering takes long and is tested above."""
        images = np.zeros((len(items), 32, 32, 3), dtype=np.uint8)
        images[:, 0, 0, 0], images[:, 0, 0, 1], images[:, 0, 0, 2] = label % 256, items, seed
        return images

    monkeypatch.setattr(families, "render", stamp)
    families.write_families(tmp_path / "families", seed=5)
    made = open_set(tmp_path / "families")
    assert made.images.shape == (11_040, 32, 32, 3)
    assert (made.images[:, 0, 0, 2] == 5).all()
    np.testing.assert_array_equal(made.labels % 256, made.images[:, 0, 0, 0])
    assert len(np.unique(np.stack([made.labels, made.images[:, 0, 0, 1]]), axis=1).T) == 552 * 20
    assert len(set(made.class_names)) == 552
    assert made.domains is made.origins is None
    chosen = [set((made.select(split).labels // families.MEMBERS).tolist()) for split in SPLITS]
    assert [len(each) for each in chosen] == [60, 12, 20]  # families, none of them in two splits
    assert len(set.union(*chosen)) == 92


def test_a_small_set_comes_with_its_nearness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The classes of a family are near each other, and no others."""
    monkeypatch.setattr(families, "FAMILIES", {"train": 2, "val": 1, "test": 1})
    monkeypatch.setattr(families, "MEMBERS", 3)
    monkeypatch.setattr(families, "ITEMS", 2)
    families.write_families(tmp_path / "families")
    made = open_set(tmp_path / "families")
    np.testing.assert_array_equal(made.images[made.labels == 3], pictures(items=2)[:2])
    assert made.nearness is not None
    assert made.nearness.set_digest == made.digest
    assert made.nearness.nearest[:4] == ((1, 2), (0, 2), (0, 1), (4, 5))
