"""From recipes to runs, and what is made of runs."""

import json
from pathlib import Path

import pytest

from tests.helpers.command_line import PRETRAIN, TRAIN, fewset, options, succeed


@pytest.mark.usefixtures("tiny_set")
def test_from_recipe_to_report(tmp_path: Path) -> None:
    runs = ["--runs", tmp_path]
    output = succeed("pretrain", "strokes/pretrain", *runs, *options(PRETRAIN))
    assert output.endswith(f"run: {tmp_path / 'strokes-pretrain'}\n")
    succeed("train", "strokes/protonet", "strokes/feat", *runs, *options(TRAIN))
    pair = [tmp_path / "strokes-protonet", tmp_path / "strokes-feat"]
    result = json.loads(succeed("eval", pair[1], "--json"))
    assert result == json.loads((pair[1] / "result.json").read_text())
    other = json.loads(succeed("eval", pair[1], "--way", 2, "--seed", 5, "--split", "val", "--json"))
    assert (other["way"], other["seed"], other["split"]) == (2, 5, "val")
    assert json.loads((pair[1] / "result.json").read_text()) == result
    assert len(list((pair[1] / "results").glob("*.json"))) == 1
    table = succeed("compare", *pair)
    assert "ProtoNet" in table
    assert "FEAT" in table
    assert str(tmp_path / "report" / "report.html") in succeed("report", *pair, "--out", tmp_path / "report")
    assert (tmp_path / "report" / "report.html").stat().st_size > 10_000
    kept = tmp_path / "kept"
    output = succeed("results", kept, "--add", pair[0], "--add", pair[1])
    assert output == (
        f"kept: {kept}/tiny/strokes-protonet\nkept: {kept}/tiny/strokes-feat\npage: {kept}/README.md\n"
    )
    assert succeed("results", kept, "--check") == "the page is up to date\n"


@pytest.mark.parametrize("command", ["pretrain", "train"])
def test_ctrl_c_says_how_to_continue(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fewset.experiments.train_run.execute", interrupted)
    result = fewset(command, "strokes/feat", "--out", tmp_path / "run")
    assert result.exit_code == 130
    assert result.output == f"stopped; the same command with --resume continues in {tmp_path / 'run'}\n"
