"""The acid test of protocols: a new one is one file of under 60 lines, and everything knows it."""

import json
import re
from pathlib import Path

import pytest

from fewset.experiments.recipes import parse_recipe
from fewset.experiments.train_run import execute
from tests.helpers.command_line import fail, succeed

PLUGIN = '''
"""Tasks whose queries are all copies of the shots, moved by a little noise: how steady is the model?"""

from dataclasses import dataclass

import torch

from fewset.evaluation.embedding import evaluating
from fewset.evaluation.protocols import Job, Outcome, Protocol, option, register_protocol
from fewset.evaluation.scoring import score_tasks
from fewset.core.errors import UserError
from fewset.tasks.items import Items


@register_protocol("toy")
@dataclass(frozen=True)
class Toy(Protocol):
    """Noise on the embeddings."""

    its_option: int = option(1, "How strong the noise is.")
    quiet: bool = option(False, "No noise at all.")

    def prepare(self, job: Job) -> Items:
        if self.its_option < 0:
            raise UserError(f"--its-option is {self.its_option}, expected 0 or more")
        items: Items = super().prepare(job)
        return items

    def evaluate(self, job: Job, items: Items) -> Outcome:
        features = job.embed(items)
        noise = 0 if self.quiet else self.its_option
        generator = torch.Generator().manual_seed(job.spec.seed)
        noisy = features + noise * torch.randn(features.shape, generator=generator)
        with evaluating(job.model) as model:
            plain, score = (score_tasks(model, each, items.index, job.spec) for each in (features, noisy))
        return Outcome(
            score,
            scores={"without_noise": plain},
            fields={"noise": noise},
            notes={"noise": f"{noise} times a standard normal"},
        )
'''


@pytest.fixture
def run(tmp_path: Path, tiny_set: object) -> Path:  # noqa: ARG001
    table = {
        "name": "pre",
        "data": {"set": "tiny"},
        "model": {"backbone": "conv4", "backbone_options": {"input_size": 16, "dim": 8}},
        "pretrain": {"epochs": 1, "batch": 37, "validation_tasks": 5, "validation_query": 3},
        "evaluate": {"way": 3, "query": 3, "tasks": 23},
    }
    execute(parse_recipe(table), "pretrain", tmp_path / "pre")
    return tmp_path / "pre"


def test_a_toy_protocol_is_one_short_file_and_everything_knows_it(run: Path, tmp_path: Path) -> None:
    assert len(PLUGIN.splitlines()) < 60
    plugin = tmp_path / "toy.py"
    plugin.write_text(PLUGIN)
    assert "unknown setting 'toy'" in fail("eval", run, "--setting", "toy")

    words = ("eval", run, "--plugin", plugin, "--setting", "toy")
    shown = re.sub(r"[\s│]+", " ", succeed(*words, "--help"))
    assert "Options of the setting toy" in shown
    assert "--its-option" in shown
    assert "How strong the noise is. Default: 1." in shown
    assert "--quiet" in shown

    output = succeed(*words, "--its-option", 3)
    assert "noise: 3 times a standard normal" in output
    (file,) = (run / "results").glob("*.json")
    assert file.name.startswith("toy-its-option-3-tiny-test-")
    result = json.loads(file.read_text())
    assert result["options"] == {"its_option": 3, "quiet": False}
    assert result["fields"] == {"noise": 3}
    assert result["scores"]["without_noise"]["mean"] == json.loads((run / "result.json").read_text())["mean"]

    # The report needs the file alone, not the plugin.
    succeed("report", file, "--out", tmp_path / "report")
    page = (tmp_path / "report" / "report.html").read_text()
    for text in ("toy", "without noise", "3 times a standard normal"):
        assert text in page

    assert "--its-option is -1, expected 0 or more" in fail(*words, "--its-option=-1")
    assert "--its-option is 'three' (str), expected int" in fail(*words, "--its-option", "three")
    other = ("eval", run, "--plugin", plugin, "--its-option", 3)
    assert "--its-option is not an option of the setting standard" in fail(*other)
    quiet = json.loads(succeed(*words, "--quiet", "--json"))
    assert quiet["mean"] == quiet["scores"]["without_noise"]["mean"]


def test_a_plugin_named_in_the_variable_brings_its_options(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toy.py").write_text(PLUGIN)
    monkeypatch.setenv("FEWSET_PLUGINS", str(tmp_path / "toy.py"))
    assert "noise: 3 times" in succeed("eval", run, "--setting", "toy", "--its-option", 3)
