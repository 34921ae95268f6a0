"""The examples of the guide to extending fewset work as written."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fewset import FewShotModel, TaskSpec, import_set
from fewset.data.images.store import ImageSet
from fewset.evaluation.protocols import PROTOCOLS, Job, prepare
from fewset.experiments.plugins import load_plugin
from fewset.experiments.train_run import execute
from fewset.models.adapters import ADAPTERS
from fewset.models.backbones import BACKBONES
from fewset.models.heads import HEADS
from tests.helpers.guides import blocks
from tests.helpers.tiny_recipes import PRETRAIN, recipe


@pytest.fixture(autouse=True)
def _plugins(tmp_path: Path) -> None:
    examples = blocks("docs/extending.md", "python")
    assert len(examples) == 5
    for number, example in enumerate(examples):
        plugin = tmp_path / f"example{number}.py"
        plugin.write_text(example)
        load_plugin(plugin)


def model() -> FewShotModel:
    return FewShotModel(
        BACKBONES["tiny"](input_size=20, dim=7), ADAPTERS["identity"](7), HEADS["nearest-shot"](7), "post"
    )


def test_the_head_takes_the_nearest_shot_of_each_class() -> None:
    rng = np.random.default_rng(0)
    support, query = rng.normal(size=(2, 3, 5, 7)), rng.normal(size=(2, 11, 7))
    mask = rng.random((2, 3, 5)) < 0.6
    mask[:, :, 0] = True
    distances = ((query[:, :, None, None] - support[:, None]) ** 2).sum(-1)
    expected = -np.where(mask[:, None], distances, np.inf).min(-1)
    given = (torch.from_numpy(values) for values in (support, query, mask))
    np.testing.assert_allclose(HEADS["nearest-shot"](7)(*given).numpy(), expected)


def test_the_setting_scores_a_model_of_the_head_and_the_backbone(tiny_set: ImageSet) -> None:
    job = Job(model(), tiny_set, "test", None, TaskSpec(way=3, shot=2, query=5, tasks=13))
    scores = []
    for strength in (0.0, 100.0):
        protocol = PROTOCOLS["noisy"](strength=strength)
        scores.append(protocol.evaluate(job, prepare(protocol, "noisy", job)).score.mean)
    quiet, noisy = scores
    assert quiet > noisy


def test_the_importer_reads_class_and_number(tmp_path: Path) -> None:
    (tmp_path / "birds").mkdir()
    for name in ("great_tit_1", "great_tit_2", "wren_1", "robin_1"):
        Image.new("RGB", (20, 20)).save(tmp_path / "birds" / f"{name}.jpg")
    birds = import_set("underscore", tmp_path / "birds", size=16)
    assert birds.class_names == ("great_tit", "robin", "wren")
    assert len(birds.labels) == 4


@pytest.mark.usefixtures("tiny_set")
def test_the_tracker_writes_a_line_an_epoch(tmp_path: Path) -> None:
    execute(recipe(PRETRAIN), "pretrain", tmp_path / "run", log_to=["lines"])
    lines = (tmp_path / "run" / "tracking" / "lines" / "lines.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["3", "6", "9"]
