import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.data.features.importer import import_features
from fewset.data.features.table import LAYOUT, ROLES, FeatureTable, open_features, random_order
from tests.helpers.feature_files import CLASSES, DIM, ROWS, arrays, save_npz


@pytest.fixture
def table(tmp_path: Path) -> FeatureTable:
    return import_features(save_npz(tmp_path / "birds", arrays()))


def test_rows_in_any_order_and_more_than_once(table: FeatureTable) -> None:
    features, rows = arrays()["features"], np.array([60, 3, 4, 5, 5, 0, 59, 60, 2, 1])
    np.testing.assert_array_equal(table.read(rows), features[rows])
    assert table.read(np.arange(0)).shape == (0, DIM)
    for wrong in (-1, ROWS):
        with pytest.raises(IndexError):
            table.read(np.array([0, wrong]))


@pytest.mark.parametrize("chunk", [1, 13, ROWS, 100, None])
def test_chunks_are_the_rows_in_order(table: FeatureTable, chunk: int | None) -> None:
    rows = np.arange(2, 50)
    parts = list(table.chunks(rows, chunk))
    assert max(len(part) for part, _ in parts) <= (chunk or ROWS)
    np.testing.assert_array_equal(np.concatenate([part for part, _ in parts]), rows)
    np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), arrays()["features"][rows])


def test_classes_and_rows(table: FeatureTable) -> None:
    assert table.classes("seen").tolist() == [0, 2]
    assert table.classes("unseen").tolist() == [1, 3, 4]
    for role in ROLES:
        expected = [
            row for row in range(ROWS) if table.labels[row] in (1, 4) and arrays()["role"][row] == role
        ]
        assert table.rows(np.array([4, 1]), role).tolist() == expected
    with pytest.raises(UserError, match=r"no unseen classes of the validation setup; leave the setup out"):
        table.classes("unseen", "validation")


def test_shots_are_a_pure_function_of_the_seed(table: FeatureTable) -> None:
    classes = np.array([4, 1, 3])
    drawn = table.draw(classes, 5, seed=3)
    assert (table.labels[drawn] == classes[:, None]).all()
    assert (table.roles[drawn] == ROLES.index("train")).all()
    assert all(len(set(rows)) == 5 for rows in drawn.tolist())
    np.testing.assert_array_equal(table.draw(classes, 2, seed=3), drawn[:, :2])
    np.testing.assert_array_equal(table.draw(classes[1:2], 5, seed=3), drawn[1:2])
    assert not np.array_equal(table.draw(classes, 5, seed=4), drawn)


def test_every_row_of_a_class_is_drawn_equally_often(table: FeatureTable) -> None:
    rows = table.rows(np.array([3]), "train")
    drawn = np.concatenate([table.draw(np.array([3]), 2, seed) for seed in range(1000)]).reshape(-1)
    expected = 2000 / len(rows)
    counts = np.bincount(drawn, minlength=ROWS)
    assert counts.sum() == counts[rows].sum()
    assert (np.abs(counts[rows] - expected) < 5 * np.sqrt(expected)).all()


def test_too_few_shots_name_the_class(table: FeatureTable) -> None:
    counts = np.bincount(table.labels[table.rows(np.arange(CLASSES), "train")])
    with pytest.raises(UserError, match=rf"class '4' of 'birds' has {counts[4]} training rows"):
        table.draw(np.array([4]), 50, seed=0)


def test_random_order_does_not_depend_on_the_other_rows() -> None:
    labels = np.arange(37) % 3
    order, place = random_order(labels, 5, np.arange(37))
    for number in range(3):
        alone, places = random_order(labels, 5, np.flatnonzero(labels == number))
        assert alone.tolist() == order[labels[order] == number].tolist()
        assert places.tolist() == list(range(len(alone))) == place[labels[order] == number].tolist()


def test_open_by_name_or_path(table: FeatureTable, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(table.path, moved)
    assert open_features(moved).digest == open_features(f"{moved}").digest == open_features("birds").digest
    with pytest.raises(UserError, match=r"'bird'.*Did you mean 'birds'.*fewset data import features"):
        open_features("bird")
    with pytest.raises(UserError, match=r"no table of features at .*import one: fewset data import features"):
        open_features(tmp_path / "birds.npz")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: os.truncate(path / "features.npy", 1000), r"features.npy has 1000 bytes, expected"),
        (lambda path: _flip(path / "features.npy"), r"features.npy was edited"),
        (lambda path: _edit(path / "manifest.json", dim=DIM + 1), r"it was edited"),
        (lambda path: _edit(path / "manifest.json", counts=[3]), r"counts is \[3\]"),
        (lambda path: _edit(path / "manifest.json", made_from={"weights": 3}), r"made_from.weights is 3"),
    ],
)
def test_a_damaged_table_is_refused(
    table: FeatureTable, damage: Callable[[Path], object], message: str
) -> None:
    damage(table.path)
    with pytest.raises(UserError, match=message + r".*import it again: fewset data import features"):
        open_features("birds")


def test_rows_without_columns_are_refused(table: FeatureTable) -> None:
    np.save(table.path / "rows.npy", np.zeros(ROWS))
    LAYOUT.seal(table.path, ("features.npy", "rows.npy"), table.manifest)
    with pytest.raises(UserError, match="arrays do not fit"):
        open_features("birds")


def test_a_table_that_is_cut_while_in_use_is_refused(table: FeatureTable) -> None:
    os.truncate(table.path / "features.npy", 1000)
    with pytest.raises(UserError, match="cut short"):
        table.read(np.arange(ROWS))


@pytest.mark.parametrize("number", [np.nan, -np.inf])
def test_a_row_that_is_not_finite_is_refused_when_it_is_read(table: FeatureTable, number: float) -> None:
    with (table.path / "features.npy").open("r+b") as file:
        file.seek(table.offset + 4 * (5 * table.dim + 1))
        file.write(np.float32(number).tobytes())
    assert len(table.read(np.array([3, 4, 6]))) == 3
    with pytest.raises(UserError, match=r"row 5 of features.npy.*import it again"):
        table.read(np.array([3, 5, 6]))


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
