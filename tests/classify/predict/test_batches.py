"""Predictor and Embedder: what is in a batch, what comes back, and in other processes."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from fewset import Embedder, FewShotClassifier, Predictor, embed
from fewset.core.errors import UserError
from fewset.encoders import ENCODERS
from tests.helpers.photos import CLASSES, TinyEncoder, photo, write_photos


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Photos, and `my.fewset` beside them, with an encoder that is known by name."""
    monkeypatch.setitem(ENCODERS._members, "tiny", lambda _: TinyEncoder())
    FewShotClassifier("tiny").fit(write_photos(tmp_path / "photos")).save(tmp_path / "my.fewset")
    return tmp_path


def test_every_kind_of_photo_gets_the_same_answer(folder: Path) -> None:
    files = [folder / "photos" / label / "0.png" for label in CLASSES]
    pictures = [photo(label, 0) for label in CLASSES]
    predict = Predictor(folder / "my.fewset", top=2)
    expected = predict([str(file) for file in files])
    assert expected["class"].tolist() == list(CLASSES)
    assert list(expected) == [
        *("class", "probability", "closeness", "nearest", "problem"),
        *("class_1", "probability_1", "class_2", "probability_2"),
    ]
    np.testing.assert_array_equal(expected["probability"], expected["probability_1"])
    assert expected["nearest"].tolist() == [f"{label}/0.png" for label in CLASSES]
    for batch in (
        files,
        pictures,
        [file.read_bytes() for file in files],
        {"path": np.array([str(file) for file in files])},
        {"bytes": np.array([file.read_bytes() for file in files], dtype=object)},
        {"image": np.stack([np.asarray(picture) for picture in pictures])},
    ):
        found = predict(batch)
        for name, column in expected.items():
            np.testing.assert_array_equal(found[name], column)


def test_the_other_columns_stay_and_the_pixels_go(folder: Path) -> None:
    predict = Predictor(folder / "my.fewset")
    batch = {"path": ["a.png", "b.png"], "bytes": [b"no photo", b""], "number": np.array([7, 9])}
    found = predict(batch)
    assert found["number"].tolist() == [7, 9]
    assert found["path"] == ["a.png", "b.png"]
    assert "bytes" not in found
    content = (folder / "photos" / "grass" / "0.png").read_bytes()
    chosen = Predictor(folder / "my.fewset", column="content")
    assert chosen({"path": ["x"], "content": [content]})["class"].tolist() == ["grass"]
    with pytest.raises(UserError, match="columns number, expected image, bytes, path; name the column"):
        predict({"number": [1]})
    with pytest.raises(UserError, match="expected content"):
        chosen({"path": ["x"]})
    with pytest.raises(UserError, match="column 'class', as the answers have; rename it"):
        predict({"path": ["x"], "class": ["grass"]})


def test_a_broken_photo_is_a_row(folder: Path) -> None:
    good = photo("grass", 11)
    batch = [good, "missing.png", b"no photo", None, np.zeros((3, 4)), good]
    found = Predictor(folder / "my.fewset")(batch)
    assert [problem is None for problem in found["problem"]] == [True, False, False, False, False, True]
    assert found["class"].tolist() == ["grass", None, None, None, None, "grass"]
    assert np.isnan(found["probability"]).tolist() == [False, True, True, True, True, False]
    assert "photo 3 is NoneType" in found["problem"][3]
    rows = Embedder("tiny")(batch)
    np.testing.assert_array_equal(rows["features"][[0, 5]], embed([good, good], TinyEncoder()))
    assert np.isnan(rows["features"][1:5]).all()
    assert rows["problem"].tolist() == found["problem"].tolist()


def test_no_photo_gives_the_columns_for_a_schema(folder: Path) -> None:
    full, empty = (Predictor(folder / "my.fewset")(batch) for batch in ([photo("grass", 0)], []))
    assert {name: column.dtype for name, column in empty.items()} == {
        name: column.dtype for name, column in full.items()
    }
    assert Embedder("tiny")({"path": []})["features"].shape == (0, 96)


def test_what_is_rejected(folder: Path) -> None:
    file, noise = folder / "my.fewset", [np.zeros((20, 20, 3), np.uint8)]
    classifier = FewShotClassifier.load(file)
    classifier.reject = "auto"
    classifier.save(folder / "rejects.fewset")
    assert Predictor(file)(noise)["class"].tolist() != ["none of these"]
    assert Predictor(file, reject="auto")(noise)["class"].tolist() == ["none of these"]
    assert Predictor(folder / "rejects.fewset")(noise)["class"].tolist() == ["none of these"]
    assert Predictor(folder / "rejects.fewset", reject=None)(noise)["class"].tolist() != ["none of these"]
    with pytest.raises(UserError, match="reject is 7"):
        Predictor(file, reject=7)


def test_pickled_without_what_it_has_loaded(folder: Path) -> None:
    predict = Predictor(folder / "my.fewset", top=1)
    fresh, expected = pickle.dumps(predict), predict([photo("brick", 3)])
    used = pickle.dumps(predict)
    assert used == fresh
    found = pickle.loads(used)([photo("brick", 3)])  # noqa: S301 - our own
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name], column)


@pytest.mark.slow
def test_in_a_pool_of_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a relative path, in another working directory."""
    photos = write_photos(tmp_path / "photos", shots=2)
    FewShotClassifier().fit(photos).save(tmp_path / "my.fewset")
    paths = sorted(str(path) for path in photos.rglob("*.png"))
    batches = [{"path": paths[:2]}, {"path": [*paths[2:], "missing.png"]}]
    monkeypatch.chdir(tmp_path)
    predict, rows = Predictor("my.fewset"), Embedder()
    monkeypatch.chdir("/")
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        found = list(pool.map(predict, batches))
        features = np.concatenate([one["features"] for one in pool.map(rows, batches)])
    expected = [Path(path).parent.name for path in paths]
    assert np.concatenate([one["class"] for one in found]).tolist() == [*expected, None]
    np.testing.assert_allclose(features[:-1], embed(paths), atol=1e-4)
    assert np.isnan(features[-1]).all()
