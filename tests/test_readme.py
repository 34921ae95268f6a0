"""The examples of the README work as written."""

import re
from pathlib import Path

import pytest
import torch

from fewset.experiments.build import build_model
from fewset.experiments.config import ModelConfig
from fewset.experiments.weights import save_weights
from tests.helpers.command_line import PRETRAIN, TRAIN, options, succeed
from tests.helpers.guides import ROOT, blocks, example

README = (ROOT / "README.md").read_text()
ADAPTER = example("README.md", "register_adapter")


def test_the_adapter_example_is_under_thirty_lines() -> None:
    assert len(ADAPTER.splitlines()) < 30


@pytest.mark.usefixtures("tiny_set")
def test_the_adapter_example_trains_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mean_shift.py").write_text(ADAPTER)
    (command,) = (
        line for block in blocks("README.md", "") for line in block.splitlines() if "--plugin" in line
    )
    succeed("pretrain", "strokes/pretrain", *options(PRETRAIN))
    succeed(*command.split()[1:], *options([*TRAIN, "train.tasks_per_epoch=7"]))
    succeed("eval", "runs/mean-shift", "--plugin", "mean_shift.py", "--way", 2)

    from fewset import load

    model = load("runs/mean-shift")
    assert not torch.allclose(model.adapter.amount, torch.full((64,), 0.1))  # it learnt


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_demo_table_is_that_of_the_published_results() -> None:
    """The demo runs the same recipes with the same seeds, so it prints the published numbers."""
    from fewset.report.loading import load_results
    from fewset.report.tables import comparison_table, plain_text

    kept = ROOT / "docs" / "results" / "strokes"
    table = plain_text(
        comparison_table(load_results([kept / "strokes-protonet", kept / "strokes-feat"]))
    ).strip()
    assert any(table in block for block in blocks("README.md", ""))


@pytest.mark.usefixtures("tiny_set")
def test_the_python_example_scores_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As written, but with random weights, and on small tasks of a small set."""
    code = example("README.md", "evaluate")
    monkeypatch.chdir(tmp_path)
    config = ModelConfig(backbone_options={"input_size": 16}, adapter="attention")
    save_weights(build_model(config), config, Path("fewset-demo/strokes-feat/model.safetensors"))
    for given, small in (('"strokes"', '"tiny"'), ("query=15", "query=5"), ("10_000", "11")):
        assert given in code
        code = code.replace(given, small)
    exec(code, {})
    assert re.fullmatch(r"\d+\.\d\d ± \d+\.\d\d %\n", capsys.readouterr().out)
