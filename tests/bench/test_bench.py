"""The parts from end to end, at tiny sizes, on a tiny set."""

import json
from pathlib import Path

import pytest
import torch

from fewset.bench.measuring import Measuring
from fewset.bench.parts import _agreement, bench_classify, bench_data, bench_evaluate, bench_train
from fewset.bench.sides import EmbeddedSplit, Input, PlainModel, Published, Training
from fewset.bench.workers import Side, Worker
from fewset.core.errors import UserError
from fewset.data.images.store import ImageSet
from fewset.models.adapters.identity import Identity
from fewset.models.backbones.conv4 import Conv4
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.model import FewShotModel

SETUP = Measuring(repetitions=2)
MODEL = {"data": "tiny", "backbone": "conv4", "size": 16, "device": "cpu"}
INPUT = MODEL | {"batch": 3, "steps": 1}
SCORE = MODEL | {"split": "test"}


def images_of(record: dict) -> list[int]:
    """The images of each side of a record, which is checked."""
    assert json.loads(json.dumps(record)) == record
    assert record["machine"]["torch"] == torch.__version__
    assert record["commit"]
    for side in record["sides"]:
        assert len(side["seconds"]) == 2
        assert min(side["seconds"]) > 0
        assert side["images_per_second"] > 0
        assert side["peak_memory"] > 2**24
    for ratio in record["ratios"]:
        assert 0 < ratio["low"] <= ratio["median"] <= ratio["high"]
    return [side["images"] for side in record["sides"]]


@pytest.mark.slow
def test_scoring_training_and_input(tiny_set: ImageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    record = bench_evaluate(SETUP, data="tiny", way=3, query=5, tasks=17, published_tasks=3)
    assert images_of(record) == [len(tiny_set.select("test").rows), 3 * 3 * 6]
    assert record["agreement"]["tasks"] == 6
    assert images_of(bench_data(SETUP, data="tiny", images=5, batch=7)) == [7, 7, 5]
    monkeypatch.setattr("fewset.bench.parts.META_TRAINING", {"way": 3, "query": 5})
    assert images_of(bench_train(SETUP, data="tiny", batch=7)) == [7, 7, 18, 18]


@pytest.mark.slow
def test_photos_to_a_classifier() -> None:
    setup = Measuring(repetitions=2, device="cpu")
    record = bench_classify(setup, images=2, photos=10, width=67, height=53)
    assert images_of(record) == [2, 2, 2, 2, 10, 1, 1]
    assert record["machine"]["threads"] == 1
    *_, share, start = record["ratios"]
    assert share["high"] < 1
    assert start["low"] > 1.5
    assert max(record["sides"][-2]["seconds"]) < 1.5
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
