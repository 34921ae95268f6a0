"""One file, from pixels to probabilities, says what the classifier says: all heads, all kinds of encoders."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from fewset import FewShotClassifier
from fewset.classify.background.comparison import Background, HeldOutComparison
from fewset.classify.export.classifiers import joined_graph
from fewset.classify.heads import CLASSIFIER_HEADS
from fewset.classify.model import learn
from fewset.core.errors import UserError
from tests.helpers.backgrounds import random_head
from tests.helpers.classifiers import exported, fitted, new_photos
from tests.helpers.encoders import write_huggingface, write_onnx
from tests.helpers.onnx_files import pixels_of, run
from tests.helpers.photos import TinyEncoder


def check(folder: Path, encoder: str, head: str = "auto") -> None:
    check_fitted(fitted(folder, encoder, head))


def check_fitted(classifier: FewShotClassifier) -> None:
    parts = exported(classifier)
    graph = joined_graph(parts.learned, parts.encoder, parts.share)
    about = json.loads(graph.metadata_props[0].value)
    photos = new_photos()
    pixels = pixels_of(photos, parts.encoder)
    answers = list(classifier.answers(photos))
    for number, expected in enumerate(classifier.predict_proba(photos)):
        probabilities, closeness, nearest = run(graph, pixels=pixels[number : number + 1])
        np.testing.assert_allclose(probabilities[0], expected, atol=1e-5)
        assert closeness[0] == pytest.approx(answers[number].closeness, abs=1e-5)
        assert nearest[0] == answers[number].nearest
        limit = about["threshold"]
        rejected = about["reject"] and limit is not None and closeness[0] < limit
        assert answers[number].label == (about["none"] if rejected else answers[number].top[0][0])


@pytest.mark.parametrize("head", CLASSIFIER_HEADS)
def test_every_head(head: str, tmp_path: Path) -> None:
    check(tmp_path, f"onnx:{write_onnx(tmp_path / 'net.onnx')}", head)


def test_a_background_that_was_kept(tmp_path: Path) -> None:
    """FEAT has adapted the prototypes for good: the file has its result, as those of other heads."""
    classifier = fitted(tmp_path, f"onnx:{write_onnx(tmp_path / 'net.onnx')}", "ridge")
    alone, learned = classifier.predict_proba(new_photos()), classifier.learned_
    head = random_head(learned.support.features.shape[1])
    comparison = HeldOutComparison(
        *("ridge", 100, 20, 5, 1, 600),
        alone=0.8,
        adapted=0.9,
        gain=0.1,
        ci95=0.01,
        set_adds=0.1,
        set_ci95=0.01,
    )
    classifier.learned_ = learn("ridge", learned.support, learned.encoder, Background(comparison, head))
    assert abs(classifier.predict_proba(new_photos()) - alone).max() > 0.001
    check_fitted(classifier)


@pytest.mark.parametrize(
    ("outputs", "batch"), [(("maps",), "B"), (("tokens", "maps"), 1), (("maps", "rows"), "B")]
)
def test_onnx_files_of_others(outputs: tuple[str, ...], batch: int | str, tmp_path: Path) -> None:
    check(tmp_path, f"onnx:{write_onnx(tmp_path / 'net.onnx', outputs, batch)}")


def test_the_encoder_that_comes_with_fewset(tmp_path: Path) -> None:
    check(tmp_path, "efficientnet-lite0")


@pytest.mark.slow
def test_a_model_of_transformers(tmp_path: Path) -> None:
    check(tmp_path, f"hf:{write_huggingface(tmp_path / 'vit')}")


@pytest.mark.slow
def test_a_released_model(tmp_path: Path) -> None:
    check(tmp_path, "omniglot-feat-1shot")


def test_the_file_says_what_it_is_about(tmp_path: Path) -> None:
    classifier = fitted(tmp_path, f"onnx:{write_onnx(tmp_path / 'net.onnx')}")
    parts = exported(classifier)
    parts.write_file(tmp_path / "my.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "my.onnx")
    about = json.loads(session.get_modelmeta().custom_metadata_map["fewset"])
    assert about["classes"] == classifier.classes_.tolist()
    assert about["threshold"] is None, "mean colours are so alike that all photos count as copies of one"
    assert (about["none"], about["reject"]) == ("none of these", True)
    assert about["encoder"]["digest"] == parts.encoder.digest
    assert about["encoder"]["name"] == "net.onnx", "where it lies on this machine is nobody's business"
    assert about["preprocessing"]["resize"] == about["preprocessing"]["least"] == 19
    assert [each.shape for each in session.get_inputs()] == [["B", 19, 19, 3]]


@pytest.mark.parametrize(("version", "batch"), [(13, 4), (10, "B")])
def test_a_fixed_batch_and_old_operators_are_rejected(version: int, batch: int | str, tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "net.onnx", batch=batch)
    model = onnx.load(path)
    model.opset_import[0].version = version
    path.write_bytes(model.SerializeToString())
    parts = exported(fitted(tmp_path, f"onnx:{path}"))
    with pytest.raises(UserError, match=r"4 images at once|operators of version 10"):
        joined_graph(parts.learned, parts.encoder, None)


def test_an_encoder_without_a_network_is_refused(tmp_path: Path) -> None:
    classifier = fitted(tmp_path, f"onnx:{write_onnx(tmp_path / 'net.onnx')}")
    tiny = TinyEncoder(digest=classifier.learned_.encoder.digest)
    with pytest.raises(UserError, match=r"the encoder tiny cannot be exported: .* make it a NetworkEncoder"):
        joined_graph(classifier.learned_, tiny, None)
