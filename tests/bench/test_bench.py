"""The commands from end to end, at tiny sizes, on a tiny set."""

import json
from pathlib import Path

import pytest
import torch

from fewset.bench.measuring import ratio_of
from fewset.bench.parts import _agreement
from fewset.bench.sides import EmbeddedSplit, Input, PlainModel, Published, Training
from fewset.bench.workers import Side, Worker
from fewset.core.errors import UserError
from fewset.data.images.store import ImageSet
from fewset.models.adapters.identity import Identity
from fewset.models.backbones.conv4 import Conv4
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.model import FewShotModel
from tests.helpers.command_line import succeed

TINY = ("--data", "tiny")
MODEL = {"data": "tiny", "backbone": "conv4", "size": 16, "device": "cpu"}
INPUT = MODEL | {"batch": 3, "steps": 1}
SCORE = MODEL | {"split": "test", "run": None}


def bench(part: str, out: Path, *options: str) -> dict:
    common = ("--repetitions", "2", "--json", "--out", str(out))
    output = succeed("bench", part, *common, *options)
    record = json.loads(out.read_text())
    assert json.loads(output) == record
    assert record["part"] == part
    assert record["machine"]["torch"] == torch.__version__
    assert record["commit"]
    for side in record["sides"]:
        assert len(side["seconds"]) == 2
        assert min(side["seconds"]) > 0
        assert side["images_per_second"] > 0
        assert side["peak_memory"] > 2**24
    for ratio in record["ratios"]:
        assert 0 < ratio["low"] <= ratio["median"] <= ratio["high"]
    return record


@pytest.mark.slow
def test_scoring_and_input(tiny_set: ImageSet, tmp_path: Path) -> None:
    counts = ("--tasks", "17", "--published-tasks", "3")
    sizes = ("--way", "3", "--query", "5", *counts, *TINY)
    records = tmp_path / "performance"
    record = bench("evaluate", records / "evaluate.json", *sizes)
    assert [side["images"] for side in record["sides"]] == [len(tiny_set.select("test").rows), 3 * 3 * 6]
    assert record["agreement"]["tasks"] == 6
    record = bench("data", records / "data.json", "--images", "5", "--batch", "7", *TINY)
    assert [side["images"] for side in record["sides"]] == [7, 7, 5]


@pytest.mark.slow
def test_training_steps(tiny_set: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fewset.bench.parts.META_TRAINING", {"way": 3, "query": 5})
    record = bench("train", tmp_path / "train.json", "--batch", "7", *TINY)
    assert [side["images"] for side in record["sides"]] == [7, 7, 18, 18]
    assert len(tiny_set.labels) == 297


@pytest.mark.slow
def test_photos_to_a_classifier(tmp_path: Path) -> None:
    records = tmp_path / "performance"
    sizes = ("--images", "2", "--photos", "10", "--width", "67", "--height", "53", "--device", "cpu")
    record = bench("classify", records / "classify.json", *sizes)
    assert [side["images"] for side in record["sides"]] == [2, 2, 2, 2, 10]
    assert record["machine"]["threads"] == 1
    *_, share = record["ratios"]
    assert share["high"] < 1
    assert [ratio["what"].split(" / ")[0] for ratio in record["ratios"][:4]] == [
        "images/s of torch", "images/s of onnxruntime"
    ] * 2  # fmt: skip


@pytest.mark.slow
def test_a_user_error_of_a_worker_is_the_users() -> None:
    side = Side(Input, INPUT | {"data": "no such set"})
    with Worker(side) as worker, pytest.raises(UserError, match="no such set"):
        worker.repeat()


BACKBONE = """
from fewset.models.backbones import register_backbone
from fewset.models.backbones.conv4 import Conv4

@register_backbone("mine")
class Mine(Conv4):
    pass
"""


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_set")
def test_a_worker_loads_plugins(tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(BACKBONE)
    with Worker(Side(Input, INPUT | {"backbone": "mine"}), plugins=[plugin]) as worker:
        assert worker.repeat()["images"] == 3


TASKS = {"way": 3, "shot": 1, "query": 5, "tasks": 7}


@pytest.mark.usefixtures("tiny_set")
@pytest.mark.parametrize(
    ("side", "options"),
    [
        (Input, INPUT),
        (Training, INPUT | {"kind": "pretrain", "plain": False}),
        (Training, INPUT | {"kind": "train", "plain": True, "way": 3, "query": 5}),
        (EmbeddedSplit, SCORE | TASKS),
        (Published, SCORE | TASKS | {"each": 2}),
    ],
)
def test_every_side_computes_on_the_device(side: type, options: dict) -> None:
    with pytest.raises(UserError, match="GPU"):
        side(**options | {"device": "cuda:99"})
    assert side(**options)()["images"] > 0


def test_the_published_way_is_the_same_function() -> None:
    torch.manual_seed(0)
    model = FewShotModel(Conv4(17, dim=7), Identity(7), PrototypeHead(7)).eval()
    images = torch.randn(5, 3, 17, 17)
    expected = model.embed(images)
    plain = PlainModel(model).eval()
    assert [type(layer).__name__ for layer in plain.backbone.blocks[0]] == [
        "Conv2d", "BatchNorm2d", "ReLU", "MaxPool2d"
    ]  # fmt: skip
    torch.testing.assert_close(plain.embed(images), expected, rtol=1e-5, atol=1e-5)


def test_more_than_one_query_of_difference_is_a_defect() -> None:
    engine = [{"accuracies": [0.2, 0.4, 0.6, 0.8]}]
    published = [{"first": 1, "accuracies": [0.4, 0.8]}]
    assert _agreement(engine, published, queries=5) == {
        "tasks": 2, "different": 1, "largest": pytest.approx(0.2)
    }  # fmt: skip
    with pytest.raises(RuntimeError, match="disagree"):
        _agreement(engine, published, queries=7)


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    assert ratio_of("x", [3.0, 1.0, 7.0]) == {"what": "x", "median": 3.0, "low": 1.0, "high": 7.0}
