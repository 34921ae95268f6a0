import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.data.features import importer as feature_import
from fewset.data.features.importer import import_features
from fewset.data.features.table import ROLES, SETUPS, FeatureTable, list_features, open_features
from fewset.data.manifest import home
from tests.helpers.feature_files import (
    CLASSES,
    DIM,
    ROWS,
    UNSEEN,
    Save,
    arrays,
    save_compressed,
    save_hdf5,
    save_npz,
)


@pytest.fixture(params=[save_npz, save_compressed, save_hdf5])
def save(request: pytest.FixtureRequest) -> Save:
    chosen: Save = request.param
    return chosen


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eleven rows at a time: every import here takes several pieces, the last of them smaller."""
    monkeypatch.setattr(feature_import, "_PIECE", 11 * DIM)


@pytest.fixture
def table(tmp_path: Path) -> FeatureTable:
    return import_features(save_npz(tmp_path / "birds", arrays()))


def test_what_was_written_is_read(save: Save, tmp_path: Path) -> None:
    content = arrays()
    table = import_features(save(tmp_path / "birds", content))
    assert (table.name, table.path, table.dim) == ("birds", home() / "features" / "birds", DIM)
    np.testing.assert_array_equal(table.read(np.arange(ROWS)), content["features"])
    np.testing.assert_array_equal(table.labels, content["labels"])
    assert [ROLES[role] for role in table.roles] == content["role"].tolist()
    assert table.unseen.tolist() == UNSEEN
    assert [SETUPS[setup] for setup in table.setups] == [""] * CLASSES
    assert table.class_names == ("0", "1", "2", "3", "4")
    assert repr(table) == "FeatureTable('birds': 61 rows of dimension 7, 2 seen and 3 unseen classes)"
    assert list_features() == ["birds"]
    table.verify()
    np.testing.assert_array_equal(np.load(table.path / "features.npy"), content["features"])


# Layouts


def benchmark_layout(directory: Path, **changes: Any) -> dict[str, Any]:
    """The files of the low-shot benchmark, with rows at their ends that are not filled."""
    generator = np.random.default_rng(1)
    directory.mkdir()
    written: dict[str, Any] = {}
    for name, rows, spare in (("train", 41, 6), ("val", 23, 2)):
        features = generator.normal(size=(rows + spare, DIM)).astype(np.float32)
        features[rows:] = np.nan
        labels = np.append(np.arange(rows) % 7, np.zeros(spare, dtype=np.int32)).astype(np.int32)
        save_hdf5(directory / name, {"all_feats": features, "all_labels": labels, "count": [rows]})
        written[name] = features[:rows], labels[:rows]
    lists = {
        "label_names": [f"n{number:08}" for number in range(7)],
        "base_classes": [0, 2, 4],
        "base_classes_1": [0],
        "base_classes_2": [2, 4],
        "novel_classes_1": [1, 3],
        "novel_classes_2": [5, 6],
    }
    lists.update(changes)
    (directory / "label_idx.json").write_text(json.dumps(lists))
    return written


def test_the_layout_of_the_low_shot_benchmark(tmp_path: Path) -> None:
    written = benchmark_layout(tmp_path / "imagenet")
    table = import_features(tmp_path / "imagenet")
    (train, train_labels), (val, val_labels) = written["train"], written["val"]
    np.testing.assert_array_equal(table.read(np.arange(64)), np.concatenate([train, val]))
    np.testing.assert_array_equal(table.labels, np.concatenate([train_labels, val_labels]))
    assert table.roles.tolist() == [0] * 41 + [1] * 23
    assert table.class_names[3] == "n00000003"
    assert table.classes("seen").tolist() == [0, 2, 4]
    assert table.classes("unseen").tolist() == [1, 3, 5, 6]
    assert table.classes("seen", "validation").tolist() == [0]
    assert table.classes("unseen", "validation").tolist() == [1, 3]
    assert table.classes("seen", "test").tolist() == [2, 4]
    assert table.classes("unseen", "test").tolist() == [5, 6]
    assert table.manifest["counts"] == {
        "seen": {"classes": 3, "train": 18, "test": 10},
        "unseen": {"classes": 4, "train": 23, "test": 13},
    }


def test_the_benchmark_layout_needs_each_class_in_one_list(tmp_path: Path) -> None:
    benchmark_layout(tmp_path / "both", novel_classes_2=[4, 5, 6])
    with pytest.raises(UserError, match=r"class 'n00000004' is in both of the lists"):
        import_features(tmp_path / "both")
    benchmark_layout(tmp_path / "neither", novel_classes_2=[5])
    with pytest.raises(UserError, match=r"class 'n00000006' is in neither of the lists"):
        import_features(tmp_path / "neither")


def test_a_directory_needs_its_files(tmp_path: Path) -> None:
    benchmark_layout(tmp_path / "one")
    (tmp_path / "one" / "val.hdf5").unlink()
    with pytest.raises(UserError, match="0 files of features called val"):
        import_features(tmp_path / "one")
    benchmark_layout(tmp_path / "two")
    (tmp_path / "two" / "label_idx.json").unlink()
    with pytest.raises(UserError, match=r"label_idx.json cannot be read"):
        import_features(tmp_path / "two")
    benchmark_layout(tmp_path / "three")
    save_hdf5(tmp_path / "three" / "val", {"features": np.ones((3, DIM + 1)), "labels": [0, 1, 2]})
    with pytest.raises(UserError, match="dimensions 7 and 8"):
        import_features(tmp_path / "three")


def test_lists_of_seen_and_unseen_classes(save: Save, tmp_path: Path) -> None:
    lists = {"class_split": None, "base_classes": [2, 0], "novel_classes": [4, 1, 3]}
    assert import_features(save(tmp_path / "birds", arrays(**lists))).unseen.tolist() == UNSEEN


def test_labels_may_be_text(save: Save, tmp_path: Path) -> None:
    names = np.array(["wren", "owl", "tit", "jay", "emu"])
    table = import_features(save(tmp_path / "birds", arrays(labels=names[arrays()["labels"]])))
    assert table.class_names == ("emu", "jay", "owl", "tit", "wren")
    assert [table.class_names[label] for label in table.labels] == names[arrays()["labels"]].tolist()


def test_class_names_are_those_of_the_labels(save: Save, tmp_path: Path) -> None:
    names = [f"bird {number}" for number in range(19)]
    labels = np.array([2, 3, 5, 11, 17])[arrays()["labels"]]
    table = import_features(save(tmp_path / "birds", arrays(labels=labels, class_names=names)))
    assert table.class_names == ("bird 2", "bird 3", "bird 5", "bird 11", "bird 17")


def test_rows_that_are_not_filled_are_left_out(save: Save, tmp_path: Path) -> None:
    table = import_features(save(tmp_path / "birds", arrays(count=[53])))
    assert len(table.labels) == 53
    np.testing.assert_array_equal(table.read(np.arange(53)), arrays()["features"][:53])


def test_without_roles_a_share_of_each_class_is_held_out(tmp_path: Path) -> None:
    source = save_npz(tmp_path / "birds", arrays(role=None))
    table = import_features(source, held_out=0.3, seed=2)
    counts, queries = np.bincount(table.labels), np.bincount(table.labels, weights=table.roles)
    assert queries.tolist() == [round(0.3 * count) for count in counts]
    assert import_features(source, "again", held_out=0.3, seed=2).digest == table.digest
    assert import_features(source, "other", held_out=0.3, seed=3).roles.tolist() != table.roles.tolist()
    assert "--held-out 0.3 --seed 2" in table.manifest["command"]


def test_a_class_of_one_row_cannot_be_held_out(tmp_path: Path) -> None:
    labels = arrays()["labels"]
    labels[labels == 3] = 2
    labels[7] = 3
    with pytest.raises(UserError, match=r"class '3' has one row"):
        import_features(save_npz(tmp_path / "birds", arrays(labels=labels, role=None)))


# Refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": None}, "has no array 'features' or 'all_feats'; it has: class_split,"),
        ({"labels": None}, "has no array 'labels'"),
        ({"class_split": None}, "neither 'class_split' nor"),
        ({"features": np.ones(ROWS)}, r"'features' has shape \(61,\)"),
        ({"features": np.full((ROWS, DIM), "a")}, "'features' has shape"),
        ({"labels": np.zeros(ROWS - 1, dtype=int)}, r"'labels' has shape \(60,\)"),
        ({"labels": np.zeros(ROWS)}, "type float64"),
        ({"labels": np.int64(3)}, r"'labels' has shape \(\)"),
        ({"class_split": ["seen"] * 4}, r"'class_split' has shape \(4,\), expected 5"),
        ({"class_split": ["seen", "hidden"] + ["seen"] * 3}, "'class_split' holds 'hidden'"),
        ({"class_split": np.array(UNSEEN)}, "'class_split' holds 'False'"),
        ({"role": ["train"] * 60}, r"'role' has shape \(60,\), expected 61"),
        ({"role": ["training"] * 61}, "'role' holds 'training', expected train or test"),
        ({"role": np.zeros((ROWS, 2))}, r"'role' has shape \(61, 2\)"),
        ({"role": np.zeros(ROWS, dtype=[("a", "f4")])}, "'role' has"),
        ({"count": [62]}, "'count' is 62, expected 1 to 61"),
        ({"count": ["=1+1"]}, "'count' is =1"),
        ({"count": np.zeros(0, dtype=int)}, "'count' has shape"),
        ({"class_names": ["a", "b", "c"]}, "'class_names' has 3 names, but the labels go from 0 to 4"),
    ],
)
def test_bad_arrays_are_named(save: Save, tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        import_features(save(tmp_path / "birds", arrays(**changes)))
    assert list_features() == []


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_what_is_no_number_is_named_by_its_row(save: Save, tmp_path: Path, value: float) -> None:
    features = arrays()["features"].astype(np.float64)
    features[43, 2] = value
    with pytest.raises(UserError, match=r"row 43 from .*birds\S* are NaN, infinite or too large"):
        import_features(save(tmp_path / "birds", arrays(features=features)))
    assert list((home() / "features").iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.array([object()] * ROWS)}, "'labels' cannot be read .*type object"),  # a pickle
        ({"features": np.asfortranarray(arrays()["features"])}, "column by column"),
    ],
)
def test_npz_files_that_are_not_read(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        import_features(save_npz(tmp_path / "birds", arrays(**changes)))


def test_a_truncated_file_is_refused(save: Save, tmp_path: Path) -> None:
    path = save(tmp_path / "birds", arrays())
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(UserError, match=r"cannot be read .*get it again"):
        import_features(path)


def test_other_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no file"):
        import_features(tmp_path / "nothing.npz")
    (tmp_path / "features.txt").write_text("1 2 3")
    with pytest.raises(UserError, match=r"a name that ends in one of .h5, .hdf5, .hdf, .npz"):
        import_features(tmp_path / "features.txt")
    with pytest.raises(UserError, match=r"held_out is 1"):
        import_features(tmp_path / "features.npz", held_out=1.0)


def test_a_table_from_another_source_is_not_replaced_unasked(table: FeatureTable, tmp_path: Path) -> None:
    import_features(tmp_path / "birds.npz")  # from the same source
    other = save_npz(
        tmp_path / "other", arrays(labels=1 - arrays()["labels"] % 2, class_split=["seen", "unseen"])
    )
    with pytest.raises(UserError, match=r"'birds' exists and came from .*birds.npz'"):
        import_features(other, "birds")
    assert open_features("birds").digest == table.digest
    assert import_features(other, "birds", replace=True).digest != table.digest


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("save", [save_npz, save_compressed], indirect=True)
def test_a_flipped_bit_is_an_error_on_one_line(save: Save, place: float, tmp_path: Path) -> None:
    # More than zipfile reads at once: the checksum fails only after rows have been read.
    features = np.random.default_rng(0).normal(size=(ROWS, 101)).astype(np.float32)
    path = save(tmp_path / "birds", arrays(features=features, role=None))
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match="cannot be read") as error:
        import_features(path)
    assert "\n" not in str(error.value)
