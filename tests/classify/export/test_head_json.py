"""`encoder.onnx` and `head.json` are all that a program needs, written here again from the guide."""

import json
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fewset import FewShotClassifier
from tests.helpers.classifiers import exported, fitted, new_photos
from tests.helpers.encoders import write_onnx
from tests.helpers.onnx_files import pixels_of, run
from tests.helpers.photos import photo


def array(part: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(b64decode(part["data"]), part["dtype"]).reshape(part["shape"])


def unit(row: np.ndarray) -> np.ndarray:
    return row / np.sqrt((row**2).sum())


def test_the_parts_give_the_answers_of_the_classifier(tmp_path: Path) -> None:
    classifier = fitted(tmp_path, "efficientnet-lite0")
    parts = exported(classifier)
    parts.write_folder(tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["encoder.onnx", "head.json"]
    about = json.loads((tmp_path / "out" / "head.json").read_text(encoding="utf-8"))
    assert about["threshold"] == classifier.learned_.threshold(0.05)
    head, settings, support = about["head"], about["preprocessing"], about["support"]
    close = about["closeness"]
    known = array(support["features"]).astype(float)
    shots = np.array([unit(row) for row in np.sign(known) * np.abs(known) ** close["power"]])
    labels = np.array(support["labels"])
    centres = np.array([unit(shots[labels == label].sum(axis=0)) for label in range(3)])

    photos = new_photos()
    images = (pixels_of(photos, parts.encoder) * settings["scale"] - settings["mean"]) / settings["std"]
    (rows,) = run(tmp_path / "out" / "encoder.onnx", images=images.transpose(0, 3, 1, 2).astype(np.float32))
    expected = classifier.predict_proba(photos)
    for row, probabilities, answer in zip(rows, expected, classifier.answers(photos), strict=True):
        exact = row.astype(float)
        prepared = unit(np.sign(exact) * np.abs(exact) ** head["power"])
        logits = unit(prepared - array(head["shift"])) @ array(head["weight"]) + array(head["bias"])
        shares = np.exp(logits / head["temperature"])
        np.testing.assert_allclose(shares / shares.sum(), probabilities, atol=1e-5)
        compared = unit(np.sign(exact) * np.abs(exact) ** close["power"])
        values = compared @ array(close["weight"])
        closeness = (max((shots @ compared).max(), (centres @ compared).max()) + values.max()) / 2
        assert closeness == pytest.approx(answer.closeness, abs=1e-5)
        label = about["classes"][shares.argmax()] if closeness >= about["threshold"] else about["none"]
        assert label == answer.label
    assert [answer.label for answer in classifier.answers(photos)][-1] == "none of these"

    assert support["names"][:2] == ["0.png", "1.png"]
    thumbnail = Image.open(BytesIO(b64decode(support["thumbnails"][0])))
    assert thumbnail.size == (40, 32)


def test_nothing_is_said_where_nothing_can_be_said(tmp_path: Path) -> None:
    """One photo a class: no threshold. And labels may be numbers."""
    encoder = f"onnx:{write_onnx(tmp_path / 'net.onnx')}"
    classifier = FewShotClassifier(encoder, device="cpu").fit([photo("grass", 0), photo("brick", 0)], [7, 3])
    exported(classifier).write_folder(tmp_path / "out")
    about = json.loads((tmp_path / "out" / "head.json").read_text(encoding="utf-8"))
    assert (about["classes"], about["threshold"], about["none"]) == ([3, 7], None, -1)
