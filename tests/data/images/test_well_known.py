from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fewset.data.images.store import ImageSet, open_set, set_path, write_store
from fewset.data.images.well_known import KNOWN, Known, warnings_for


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


def test_an_unknown_set_may_have_any_numbers() -> None:
    assert warnings_for(make((1, 1, 1), 2, source="folder /toy")) == []


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
        "2 classes have not 5 items: c2, c3"
    ]


def test_classes_in_two_splits() -> None:
    got = make(source="folder /x", labels=[0, 0, 1, 1, 2, 2], splits=[0, 1, 1, 1, 2, 0])
    assert warnings_for(got) == ["2 classes are in more than one split: c0, c2"]


def test_copies_instead_of_the_originals() -> None:
    (line,) = warnings_for(make(source_size={"smallest": 3, "median": 12}))
    assert line.startswith("the source images are 12 px (median of the shorter side): copies")


def test_enlarged_images() -> None:
    (line,) = warnings_for(make(source="folder /x", source_size={"smallest": 3, "median": 6}))
    assert line.startswith("most source images are smaller (6 px")
    assert line.endswith("than the stored 7 px: they were enlarged")
    assert warnings_for(make(source="folder /x", source_size={"smallest": 3, "median": 7})) == []


def test_the_known_sets_agree_with_themselves() -> None:
    for name, known in KNOWN.items():
        if known.each:
            assert known.items == sum(known.classes) * known.each, name
    assert sum(KNOWN["omniglot"].classes) == 4 * 1623
    assert sum(KNOWN["cub"].classes) == 200
