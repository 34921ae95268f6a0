"""Files of classifiers: the same probabilities to the bit, and everything else refused in one line."""

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from fewset.classify.classifier import FewShotClassifier
from fewset.classify.saving import _digest, save_classifier
from fewset.core.errors import UserError
from tests.helpers.classifier_tasks import labelled_rows
from tests.helpers.photos import CLASSES, TinyEncoder, photo, write_photos

ENTRY = "fewset.classifier"


@pytest.fixture
def fitted(tmp_path: Path) -> FewShotClassifier:
    return FewShotClassifier(TinyEncoder(), reject="auto").fit(write_photos(tmp_path / "photos"))


@pytest.fixture
def path(fitted: FewShotClassifier, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "my.fewset")
    return tmp_path / "my.fewset"


def test_the_same_probabilities_to_the_bit(fitted: FewShotClassifier, path: Path) -> None:
    again = FewShotClassifier.load(path, encoder=TinyEncoder())
    photos = [photo(label, seed) for label in CLASSES for seed in range(20, 25)]
    assert (again.predict_proba(photos) == fitted.predict_proba(photos)).all()
    assert again.predict(photos).tolist() == fitted.predict(photos).tolist()
    assert again.learned_.support.thumbnails == fitted.learned_.support.thumbnails
    assert again.learned_.support.names == fitted.learned_.support.names
    assert again.trust_ == fitted.trust_
    assert list(again.answers(photos)) == list(fitted.answers(photos))
    assert again.reject == 0.05
    before = path.read_bytes()
    again.save(path)
    assert path.read_bytes() == before
    again.add([photo("grass", 30)], "meadow")
    assert again.classes_.tolist() == sorted([*CLASSES, "meadow"])


def test_a_file_keeps_its_head_when_the_default_becomes_another(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fewset.classify.heads.DEFAULT", "centroid")
    again = FewShotClassifier.load(path, encoder=TinyEncoder())
    assert again.learned_.head == again.head == "ridge"
    assert again.add([photo("grass", 30)], "meadow").learned_.head == "ridge"


def test_a_head_that_is_gone_is_rejected(path: Path) -> None:
    learned = FewShotClassifier.load(path, encoder=TinyEncoder()).learned_
    save_classifier(replace(learned, head="equivariant"), None, path)
    with pytest.raises(UserError, match=r"'equivariant'.*; make it again: fewset fit PHOTOS -o"):
        FewShotClassifier.load(path)


@pytest.mark.parametrize("labels", [np.array(["ape", "bee", "cow"]), np.array([-7, 2, 40])])
def test_rows_of_features_with_either_kind_of_label(tmp_path: Path, labels: np.ndarray) -> None:
    X, y = labelled_rows(1)  # noqa: N806
    fitted = FewShotClassifier().fit(X, labels[y])
    fitted.save(tmp_path / "rows.fewset")
    again = FewShotClassifier.load(tmp_path / "rows.fewset")
    assert (again.predict_proba(X) == fitted.predict_proba(X)).all()
    assert again.predict(X).dtype.kind == labels.dtype.kind
    assert again.partial_fit(X, labels[y]).predict(X).tolist() == fitted.predict(X).tolist()


def test_labels_that_are_neither_are_refused(tmp_path: Path) -> None:
    X, y = labelled_rows(1)  # noqa: N806
    with pytest.raises(UserError, match="labels of type float64 cannot be saved"):
        FewShotClassifier().fit(X, y.astype(float)).save(tmp_path / "rows.fewset")
    assert not list(tmp_path.iterdir())


def test_a_file_of_another_encoder_is_refused(path: Path) -> None:
    with pytest.raises(UserError, match=r"was made with the encoder tiny .* but tiny here is another"):
        FewShotClassifier.load(path, encoder=TinyEncoder(digest="e2" * 32))


def test_what_is_no_file_of_ours_is_refused_in_one_line(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    cases = {
        "pickle": pickle.dumps({"weights": np.zeros(3)}),
        "empty": b"",
        "text": b"my classifier",
        "cut": whole[: len(whole) // 2],
        "head": whole[:40],
        "longer": whole + b"0",
    }
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match="is not a usable classifier") as caught:
            FewShotClassifier.load(tmp_path / name, encoder=TinyEncoder())
        assert "\n" not in str(caught.value)
    save_file({"weight": np.zeros(3)}, tmp_path / "other")
    with pytest.raises(UserError, match="it has no description"):
        FewShotClassifier.load(tmp_path / "other")
    with pytest.raises(UserError, match="there is no file"):
        FewShotClassifier.load(tmp_path / "nowhere")


def opened(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description of a file and its tensors."""
    with safe_open(path, "numpy") as file:
        return json.loads(file.metadata()[ENTRY]), load_file(path)


def write(path: Path, table: dict[str, Any], tensors: dict[str, np.ndarray], sign: bool) -> None:
    if sign:
        table = {key: value for key, value in table.items() if key != "sha256"}
        table["sha256"] = _digest(table, tensors)
    save_file(tensors, path, metadata={ENTRY: json.dumps(table)})


def refused(path: Path) -> str:
    with pytest.raises(UserError, match="is not a usable classifier") as caught:
        FewShotClassifier.load(path, encoder=TinyEncoder())
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_probabilities_that_are_not_finite_are_refused(path: Path) -> None:
    table, tensors = opened(path)
    write(path, table, tensors | {"weight": np.full((96, 3), 1e308)}, sign=True)
    loaded = FewShotClassifier.load(path, encoder=TinyEncoder())
    with pytest.raises(UserError, match="not finite"):
        loaded.predict_proba(np.full((2, 96), 1e9))


def test_a_file_of_format_1_gets_the_closeness_of_today(fitted: FewShotClassifier, path: Path) -> None:
    """It was a cosine alone, and is computed again from the labelled photos."""
    table, tensors = opened(path)
    table["trust"]["closeness"] = [0.99] * 12
    write(path, table | {"format": 1}, tensors, sign=True)
    again = FewShotClassifier.load(path, encoder=TinyEncoder())
    assert sorted(again.trust_.closeness) == pytest.approx(sorted(fitted.trust_.closeness))


@pytest.mark.parametrize("name", ["classes", "trust", "sha256", "features", "weight", "thumbnails"])
def test_damage_is_noticed(path: Path, name: str) -> None:
    """An entry of the description is gone, or a bit of a tensor has flipped."""
    table, tensors = opened(path)
    if table.pop(name, None) is None:
        tensors[name].reshape(-1).view(np.uint8)[0] ^= 1
    write(path, table, tensors, sign=False)
    assert "damaged" in refused(path)


@pytest.mark.parametrize(
    ("entries", "arrays"),
    [
        ({"format": 3}, {}),
        ({"photos": []}, {}),
        ({"temperature": "hot"}, {}),
        ({"trust": 3}, {}),
        ({"extra": 1}, {}),
        ({}, {"labels": np.zeros((12, 1), dtype=np.int64)}),
        ({}, {"weight": np.zeros((96, 4))}),
        ({}, {"features": np.zeros((), dtype=np.float32)}),
    ],
)
def test_content_that_does_not_fit_is_rejected(
    path: Path, entries: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    table, tensors = opened(path)
    write(path, table | entries, tensors | arrays, sign=True)
    refused(path)
