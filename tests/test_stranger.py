"""A stranger adds a member of each kind: one file, copied from a guide, and everything knows it.

Every command that concerns the member finds it, and so do the contract tests, which do not name it.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from PIL import Image

from fewset.data.images.store import open_set
from tests.helpers.command_line import PRETRAIN, TRAIN, fail, fewset_in_a_new_process, options, succeed
from tests.helpers.guides import ROOT, example
from tests.helpers.photos import write_photos


class Stranger(NamedTuple):
    """A member: its name, the guide that has its file, its contract tests, and how a recipe names it."""

    name: str
    guide: str
    contract: str
    overrides: tuple[str, ...] = ()

    def write(self, kind: str) -> Path:
        path = Path(f"{self.name}.py")
        path.write_text(example(self.guide, f"register_{kind}"))
        return path


STRANGERS = {
    "adapter": Stranger("mean-shift", "README.md", "models/adapters", ("model.adapter=mean-shift",)),
    "head": Stranger(
        "nearest-shot",
        "docs/extending.md",
        "models/heads",
        ("model.head=nearest-shot", "model.average=post", "model.adapter=identity"),
    ),
    "backbone": Stranger("tiny", "docs/extending.md", "models/backbones", ("model.backbone=tiny",)),
    "importer": Stranger("underscore", "docs/extending.md", "data/images/importers"),
    "encoder": Stranger("brightness", "docs/encoders.md", "encoders"),
    "protocol": Stranger("noisy", "docs/extending.md", ""),
}
PARTS = [kind for kind, stranger in STRANGERS.items() if stranger.overrides]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("kind", [kind for kind, stranger in STRANGERS.items() if stranger.contract])
def test_the_contract_tests_find_it(kind: str, tmp_path: Path) -> None:
    stranger = STRANGERS[kind]
    plugin = tmp_path / stranger.write(kind)
    process = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *(f"tests/{stranger.contract}/test_contract.py", "-k", stranger.name),
        ],
        env=os.environ | {"FEWSET_PLUGINS": str(plugin)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout
    (passed,) = re.findall(r"(\d+) passed", process.stdout)
    assert int(passed) >= 8
    assert "skipped" not in process.stdout


# Parts of a model


@pytest.mark.usefixtures("tiny_set")
@pytest.mark.parametrize("kind", PARTS)
def test_a_part_of_a_model_is_trained_scored_and_reported(kind: str) -> None:
    stranger = STRANGERS[kind]
    plugin = ["--plugin", stranger.write(kind)]
    own = stranger.overrides
    backbone = own if kind == "backbone" else ()
    unknown = f"unknown {kind} '{stranger.name}'"

    assert unknown in fail("train", "strokes/feat", *options([*TRAIN, *own, "train.init="]))
    succeed("pretrain", "strokes/pretrain", *options([*PRETRAIN, *backbone]), *plugin)
    succeed("train", "strokes/feat", *options([*TRAIN, *own, "name=mine", "method=Mine"]), *plugin)
    result = json.loads(succeed("eval", "runs/mine", "--json", *plugin))
    assert result == json.loads(Path("runs/mine/result.json").read_text())
    assert "rows of" in succeed("embed", "runs/mine", "--out", "rows.npz", *plugin)
    assert "Mine" in succeed("compare", "runs/strokes-pretrain", "runs/mine")
    succeed("report", "runs/strokes-pretrain", "runs/mine", "--out", "report")
    assert "Mine" in Path("report/report.html").read_text()


@pytest.mark.usefixtures("tiny_set")
@pytest.mark.parametrize("kind", PARTS)
def test_only_who_names_the_file_executes_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable names it for every command. What was scored is read without it, but not scored anew."""
    stranger = STRANGERS[kind]
    own = [*TRAIN, *stranger.overrides, "name=mine", "train.init=", "train.epochs=0"]
    plugin = stranger.write(kind)
    with monkeypatch.context() as patched:
        patched.setenv("FEWSET_PLUGINS", str(plugin))
        succeed("train", "strokes/feat", *options(own))
        succeed("eval", "runs/mine")
    report, evaluation = (
        fewset_in_a_new_process(*words)
        for words in (["report", "runs/mine", "--out", "report"], ["eval", "runs/mine"])
    )
    assert report.returncode == 0, report.stderr
    assert evaluation.returncode == 2
    assert f"unknown {kind} '{stranger.name}'" in evaluation.stderr
    assert evaluation.stderr.count("\n") == 1


def test_an_adapter_is_counted() -> None:
    assert "mean-shift" not in succeed("params")
    output = succeed("params", "--plugin", STRANGERS["adapter"].write("adapter"))
    assert re.search(r"mean-shift\W+64\W+640\W", output)


# An importer


def test_an_importer_makes_a_set() -> None:
    Path("birds").mkdir()
    for number in range(13):
        Image.new("RGB", (20, 20), (9 * number, 0, 99)).save(f"birds/class_{number % 5}_{number}.jpg")
    words = ["data", "import", "underscore", "birds", "--size", 16]
    assert "unknown kind of source 'underscore'" in fail(*words)
    assert "birds" in succeed(*words, "--plugin", STRANGERS["importer"].write("importer"))
    assert open_set("birds").class_names == tuple(f"class_{number}" for number in range(5))
    for command in ("list", "info", "verify"):
        assert "birds" in succeed("data", command, *([] if command == "list" else ["birds"]))


def test_an_importer_s_error_is_one_line() -> None:
    Path("empty").mkdir()
    plugin = STRANGERS["importer"].write("importer")
    assert "there are no images in" in fail("data", "import", "underscore", "empty", "--plugin", plugin)


# An encoder


def test_an_encoder_makes_a_classifier_and_answers() -> None:
    write_photos(Path("photos"), 3)
    words = ["fit", "photos", "-o", "my.fewset", "--encoder", "brightness"]
    assert "unknown encoder, run directory or released model 'brightness'" in fail(*words)
    plugin = ["--plugin", STRANGERS["encoder"].write("encoder")]
    assert "encoder brightness" in succeed(*words, *plugin)
    assert "encoder brightness" in succeed("info", "my.fewset")
    assert "photos/grass/0.png: " in succeed("predict", "my.fewset", "photos", *plugin)
    alone = fewset_in_a_new_process("predict", "my.fewset", "photos")
    assert alone.returncode == 2
    assert "'brightness'" in alone.stderr


# A protocol


@pytest.mark.usefixtures("tiny_set")
def test_a_protocol_scores() -> None:
    succeed("pretrain", "strokes/pretrain", *options(PRETRAIN))
    words = ["eval", "runs/strokes-pretrain", "--setting", "noisy", "--strength", 0.5]
    assert "No such option" in fail(*words)
    plugin = STRANGERS["protocol"].write("protocol")
    assert "0.5 times a standard normal" in succeed(*words, "--plugin", plugin)
    (file,) = Path("runs/strokes-pretrain/results").glob("noisy*.json")
    assert json.loads(file.read_text())["options"] == {"strength": 0.5}
    succeed("report", file, "--out", "report")
    assert "0.5 times a standard normal" in Path("report/report.html").read_text()
