from typing import Any

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.data.images.importing import merge_sets
from fewset.data.images.store import ImageSet, list_sets, open_set, set_path, write_store


def make(name: str, items: int, classes: int, size: int = 6, **more: Any) -> ImageSet:
    labels = np.arange(items) % classes
    with write_store(
        set_path(name),
        size=size,
        labels=labels,
        class_names=[f"class {number}" for number in range(classes)],
        splits=labels % 3,
        source="a test",
        **more,
    ) as draft:
        draft.images[:] = np.random.default_rng(items).integers(0, 256, draft.images.shape)
    return open_set(name)


@pytest.fixture(autouse=True)
def sets() -> list[ImageSet]:
    return [make("birds", 2500, 5), make("pets", 12, 3)]


def test_every_item_is_there_with_its_class_and_split(sets: list[ImageSet]) -> None:
    both = merge_sets(["birds", "pets"])
    assert (both.name, both.size, both.domain_names) == ("birds-pets", 6, ("birds", "pets"))
    assert both.origins is None
    for images in sets:
        rows = both.select("all", domain=images.name).rows
        np.testing.assert_array_equal(both.images[rows], images.images)
        np.testing.assert_array_equal(both.splits[rows], images.splits)
        named = [f"{images.name}: {images.class_names[label]}" for label in images.labels]
        assert [both.class_names[label] for label in both.labels[rows]] == named
    both.verify()


def test_domains_and_origins_stay_apart() -> None:
    drawn: dict[str, Any] = {
        "domains": np.arange(8) % 2,
        "domain_names": ("Photo", "Sketch"),
        "origins": np.arange(8) // 2,
    }
    make("sketchy", 8, 2, **drawn)
    both = merge_sets(["pets", "sketchy"], "both")
    assert both.domain_names == ("pets", "sketchy-Photo", "sketchy-Sketch")
    assert both.domains is not None
    assert both.domains[12:].tolist() == [1, 2] * 4
    assert both.origins is not None
    assert both.origins.tolist() == [*range(12), 12, 12, 13, 13, 14, 14, 15, 15]


@pytest.mark.parametrize(
    ("names", "name", "words"),
    [
        (["birds"], "both", "name two sets or more"),
        (["birds", "pets", "birds"], "both", "is named twice"),
        (["birds", "pets"], "pets", "'pets' is that of another set"),
        (["birds", "pets"], "strokes", "'strokes' is that of another set"),
        (["birds", "small"], "both", "at 6 px a side and 'small' at 4"),
        (["birds", "pets"], "small", "'small' exists and came from 'a test'"),
        (["birds", "no"], "both", "'no'"),
    ],
)
def test_what_cannot_be_merged_is_told(names: list[str], name: str, words: str) -> None:
    make("small", 6, 3, size=4)
    before = list_sets()
    with pytest.raises(UserError, match=words):
        merge_sets(names, name)
    assert list_sets() == before


def test_two_domains_of_one_name_are_told() -> None:
    make("birds-chalk", 6, 3)
    make("birds", 6, 3, domains=np.zeros(6, dtype=int), domain_names=("chalk",))
    with pytest.raises(UserError, match="two domains"):
        merge_sets(["birds-chalk", "birds"], "both")
