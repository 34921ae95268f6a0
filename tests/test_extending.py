"""A user adds a member of each kind: one file, copied from a guide, and every command knows it.

The contract tests know it too, although they do not name it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

from fewset import import_set
from fewset.experiments.plugins import load_plugin
from fewset.experiments.train_run import execute
from fewset.models.heads import HEADS
from tests.helpers.command_line import PRETRAIN, TRAIN, fail, fewset_in_a_new_process, options, succeed
from tests.helpers.guides import ROOT, example
from tests.helpers.photos import write_photos
from tests.helpers.tiny_recipes import PRETRAIN as TINY
from tests.helpers.tiny_recipes import recipe


class Member(NamedTuple):
    """Its name, the guide that has its file, its contract tests, and the words of a recipe that choose it."""

    name: str
    guide: str
    contract: str = ""
    overrides: tuple[str, ...] = ()


MEMBERS = {
    "adapter": Member("mean-shift", "README.md", "models/adapters", ("model.adapter=mean-shift",)),
    "head": Member(
        "nearest-shot",
        "docs/extending.md",
        "models/heads",
        ("model.head=nearest-shot", "model.average=post", "model.adapter=identity"),
    ),
    "backbone": Member("tiny", "docs/extending.md", "models/backbones", ("model.backbone=tiny",)),
    "importer": Member("underscore", "docs/extending.md", "data/images/importers"),
    "encoder": Member("brightness", "docs/encoders.md", "encoders"),
    "protocol": Member("noisy", "docs/extending.md"),
    "tracker": Member("lines", "docs/extending.md"),
}
PARTS = [kind for kind, member in MEMBERS.items() if member.overrides]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def plugin(kind: str) -> Path:
    path = Path(f"{kind}_of_mine.py").absolute()
    path.write_text(example(MEMBERS[kind].guide, f"register_{kind}"))
    return path


@pytest.mark.slow
def test_the_contract_tests_find_it() -> None:
    plugins = {kind: plugin(kind) for kind, member in MEMBERS.items() if member.contract}
    files = [f"tests/{MEMBERS[kind].contract}/test_contract.py" for kind in plugins]
    names = " or ".join(MEMBERS[kind].name for kind in plugins)
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *files, "-k", names],
        env=os.environ | {"FEWSET_PLUGINS": os.pathsep.join(map(str, plugins.values()))},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout
    for member in MEMBERS.values():
        assert not member.contract or f"{member.name}" in process.stdout


@pytest.mark.usefixtures("tiny_set")
@pytest.mark.parametrize("kind", PARTS)
def test_a_part_of_a_model_is_trained_scored_and_reported(kind: str) -> None:
    own = MEMBERS[kind].overrides
    unknown = f"unknown {kind} '{MEMBERS[kind].name}'"
    assert unknown in fail("train", "strokes/feat", *options([*TRAIN, *own, "train.init="]))
    given = ["--plugin", plugin(kind)]
    succeed(
        "pretrain", "strokes/pretrain", *options([*PRETRAIN, *(own if kind == "backbone" else ())]), *given
    )
    succeed("train", "strokes/feat", *options([*TRAIN, *own, "name=mine", "method=Mine"]), *given)
    result = json.loads(succeed("eval", "runs/mine", "--json", *given))
    assert result == json.loads(Path("runs/mine/result.json").read_text())
    succeed("report", "runs/strokes-pretrain", "runs/mine", "--out", "report")
    assert "Mine" in Path("report/report.html").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_set")
def test_only_a_user_who_names_the_file_executes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result can be read without the plugin, but the run cannot be scored again."""
    own = [*TRAIN, *MEMBERS["adapter"].overrides, "name=mine", "train.init=", "train.epochs=0"]
    with monkeypatch.context() as patched:
        patched.setenv("FEWSET_PLUGINS", str(plugin("adapter")))
        succeed("train", "strokes/feat", *options(own))
    assert fewset_in_a_new_process("report", "runs/mine", "--out", "report").returncode == 0
    evaluation = fewset_in_a_new_process("eval", "runs/mine")
    assert evaluation.returncode == 2
    assert "unknown adapter 'mean-shift'" in evaluation.stderr


def test_the_head_takes_the_nearest_shot_of_each_class() -> None:
    load_plugin(plugin("head"))
    rng = np.random.default_rng(0)
    support, query = rng.normal(size=(2, 3, 5, 7)), rng.normal(size=(2, 11, 7))
    mask = rng.random((2, 3, 5)) < 0.6
    mask[:, :, 0] = True
    distances = ((query[:, :, None, None] - support[:, None]) ** 2).sum(-1)
    expected = -np.where(mask[:, None], distances, np.inf).min(-1)
    given = (torch.from_numpy(values) for values in (support, query, mask))
    np.testing.assert_allclose(HEADS["nearest-shot"](7)(*given).numpy(), expected)


def test_an_importer_makes_a_set() -> None:
    Path("birds").mkdir()
    for name in ("great_tit_1", "great_tit_2", "wren_1", "robin_1"):
        Image.new("RGB", (20, 20)).save(f"birds/{name}.jpg")
    assert "unknown kind of source 'underscore'" in fail("data", "import", "underscore", "birds")
    load_plugin(plugin("importer"))
    birds = import_set("underscore", "birds", size=16)
    assert birds.class_names == ("great_tit", "robin", "wren")
    assert len(birds.labels) == 4


def test_an_encoder_makes_a_classifier_that_answers() -> None:
    write_photos(Path("photos"), 3)
    words = ["fit", "photos", "-o", "my.fewset", "--encoder", "brightness"]
    assert "'brightness'" in fail(*words)
    given = ["--plugin", plugin("encoder")]
    assert "encoder brightness" in succeed(*words, *given)
    assert "photos/grass/0.png: " in succeed("predict", "my.fewset", "photos", *given)


@pytest.mark.usefixtures("tiny_set")
def test_a_protocol_scores() -> None:
    succeed("pretrain", "strokes/pretrain", *options(PRETRAIN))
    words = ["eval", "runs/strokes-pretrain", "--setting", "noisy", "--strength", 0.5]
    assert "No such option" in fail(*words)
    assert "0.5 times a standard normal" in succeed(*words, "--plugin", plugin("protocol"))
    (file,) = Path("runs/strokes-pretrain/results").glob("noisy*.json")
    assert json.loads(file.read_text())["options"] == {"strength": 0.5}


@pytest.mark.usefixtures("tiny_set")
def test_a_tracker_writes_a_line_an_epoch() -> None:
    load_plugin(plugin("tracker"))
    execute(recipe(TINY), "pretrain", Path("run"), log_to=["lines"])
    lines = Path("run/tracking/lines/lines.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["3", "6", "9"]
