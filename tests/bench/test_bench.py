"""The commands from end to end, at tiny sizes, on a tiny set. What is measured is not judged here."""

import json
from pathlib import Path

import pytest
import torch

from fewset.bench.measuring import ratio_of
from fewset.bench.method_sides import ManyTasks, OneByOne
from fewset.bench.parts import _agreement
from fewset.bench.records import make_page, performance_page
from fewset.bench.sides import SIDES, PlainModel
from fewset.bench.workers import Worker
from fewset.core.errors import UserError
from fewset.data.images.store import ImageSet
from fewset.models.about import about_of
from fewset.models.adapters.identity import Identity
from fewset.models.backbones.conv4 import Conv4
from fewset.models.heads import HEADS
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.model import FewShotModel
from tests.helpers.command_line import succeed

KEPT = Path(__file__).parents[2] / "docs" / "performance"
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
def test_every_part_gives_a_record_and_the_page_shows_them(tiny_set: ImageSet, tmp_path: Path) -> None:
    counts = ("--tasks", "17", "--published-tasks", "3", "--plain-tasks", "2")
    sizes = ("--way", "3", "--query", "5", *counts, *TINY)
    records = tmp_path / "performance"
    record = bench("evaluate", records / "evaluate.json", *sizes)
    embedded, tables = len(tiny_set.select("test").rows), [17 * 3 * 6, 2 * 3 * 6]
    assert [side["images"] for side in record["sides"]] == [embedded, 3 * 3 * 6, *tables, *tables]
    assert record["agreement"]["tasks"] == 6
    record = bench("data", records / "data.json", "--images", "5", "--batch", "7", *TINY)
    assert [side["images"] for side in record["sides"]] == [7, 7, 5]

    page = make_page(records)
    assert page == tmp_path / "performance.md"
    make_page(records, check=True)
    for words in (
        "published way / this engine",
        "plain loop over tasks / fewset.evaluate, 640 numbers",
        "import of JPEG files",
        "both scored 6 tasks alike",
    ):
        assert words in page.read_text()
    page.write_text(page.read_text().replace("MiB", "GiB"))
    with pytest.raises(UserError, match="make it anew"):
        make_page(records, check=True)


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
    page = performance_page(records)
    for words in ("classify: efficientnet-lite0", "10 photos of 67 x 53 pixels", "rows of all sides differ"):
        assert words in page


@pytest.mark.slow
def test_methods_on_many_tasks_at_once(tmp_path: Path) -> None:
    records = tmp_path / "performance"
    sizes = ("--dim", "7", "--large", "11", "--tasks", "70", "--plain-tasks", "3", "--query", "2")
    record = bench("methods", records / "methods.json", *sizes, "--head", "ridge", "--head", "bd_cspn")
    assert [side["side"] for side in record["sides"]] == [
        *(
            f"{head}, {side}"
            for head in ("ridge", "bd_cspn")
            for side in ("this engine", "one task at a time")
        ),
        "ridge, 11 numbers, this engine",
    ]
    assert [side["images"] for side in record["sides"]] == [1050, 45, 1050, 45, 1050]
    assert [ratio["what"].split(",")[0] for ratio in record["ratios"]] == [
        "ridge (closed form)", "bd_cspn (closed form)"
    ]  # fmt: skip
    for words in ("methods: 70 5-way 1-shot tasks", "70 tasks of ridge with rows of 11 numbers take"):
        assert words in performance_page(records)


@pytest.mark.parametrize("head", [name for name in HEADS if about_of(HEADS[name]).takes == "embeddings"])
def test_every_head_scores_tasks_alike_one_by_one(head: str) -> None:
    side = OneByOne(head=head, dim=9, device="cpu", way=3, shot=2, query=3, tasks=4)
    assert side()["images"] == 4 * 15
    many = ManyTasks(head=head, dim=9, device="cpu", way=3, shot=2, query=3, tasks=70)
    assert (many()["images"], many()["images"]) == (64 * 15, 70 * 15)


def test_the_kept_page_is_what_the_kept_records_give() -> None:
    make_page(KEPT, check=True)


def test_without_records_there_is_no_page(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no records"):
        performance_page(tmp_path)


def test_a_user_error_of_a_worker_is_the_users() -> None:
    options = INPUT | {"data": "no such set"}
    with Worker("input", options, tuned=True) as worker, pytest.raises(UserError, match="no such set"):
        worker.repeat()


BACKBONE = """
from fewset.models.backbones import register_backbone
from fewset.models.backbones.conv4 import Conv4

@register_backbone("mine")
class Mine(Conv4):
    pass
"""


@pytest.mark.usefixtures("tiny_set")
def test_a_worker_loads_plugins(tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(BACKBONE)
    with Worker("input", INPUT | {"backbone": "mine"}, tuned=True, plugins=[plugin]) as worker:
        assert worker.repeat()["images"] == 3


TASKS = {"way": 3, "shot": 1, "query": 5, "tasks": 7}


@pytest.mark.usefixtures("tiny_set")
@pytest.mark.parametrize(
    ("side", "options"),
    [
        ("input", INPUT),
        ("training", INPUT | {"kind": "pretrain", "plain": False}),
        ("training", INPUT | {"kind": "train", "plain": True, "way": 3, "query": 5}),
        ("engine", SCORE | TASKS),
        ("published", SCORE | TASKS | {"each": 2}),
        ("many tasks", TASKS | {"head": "tim", "dim": 7, "device": "cpu"}),
        ("one by one", TASKS | {"head": "tim", "dim": 7, "device": "cpu"}),
    ],
)
def test_every_side_computes_on_the_device(side: str, options: dict) -> None:
    with pytest.raises(UserError, match="needs GPU number 99"):
        SIDES[side](**options | {"device": "cuda:99"})
    assert SIDES[side](**options)()["images"] > 0


def test_the_page_names_a_gpu(tmp_path: Path) -> None:
    record = json.loads((KEPT / "train.json").read_text())
    record["machine"]["device"] = "Some GPU"
    (tmp_path / "train.json").write_text(json.dumps(record))
    assert f"{record['machine']['threads']} threads, Some GPU." in performance_page(tmp_path)


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


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"format": 1', '"format": 9'),
        ('"format": 1', '"format": '),
        ('"sides"', '"side"'),
        ('"machine": {', '"machine": 3, "x": {'),
        ('"median": ', '"median": "many", "x": '),
        ('"seconds": [', '"seconds": [], "x": ['),
    ],
)
def test_what_is_no_record_is_refused(old: str, new: str, tmp_path: Path) -> None:
    text = (KEPT / "train.json").read_text()
    assert old in text
    (tmp_path / "train.json").write_text(text.replace(old, new))
    with pytest.raises(
        UserError, match=r"train\.json is not a record of `fewset bench` \(.*\); measure it again"
    ):
        performance_page(tmp_path)
