"""The examples of the README work as written."""

import re
from pathlib import Path

import pytest
import torch
from typer.main import get_command

from fewset import load
from fewset.cli.app import app
from fewset.cli.demo import METHODS
from fewset.experiments.build import build_model
from fewset.experiments.config import ModelConfig
from fewset.experiments.weights import save_weights
from fewset.report.loading import load_results
from fewset.report.tables import comparison_table, plain_text
from tests.helpers.birds import write_birds
from tests.helpers.command_line import PRETRAIN, TRAIN, fewset_in_a_new_process, options, succeed
from tests.helpers.guides import ROOT, blocks, example
from tests.helpers.photos import photo, write_photos


@pytest.mark.usefixtures("tiny_set")
def test_the_adapter_example_trains_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mean_shift.py").write_text(example("README.md", "register_adapter"))
    lines = [line for block in blocks("README.md", "") for line in block.splitlines()]
    (command,) = (line for line in lines if "--plugin" in line)
    succeed("pretrain", "strokes/pretrain", *options(PRETRAIN))
    succeed(*command.split()[1:], *options([*TRAIN, "train.tasks_per_epoch=7"]))
    model = load("runs/mean-shift")
    assert not torch.allclose(model.adapter.amount, torch.full((64,), 0.1))  # it learnt


def test_the_demo_table_is_that_of_the_published_results() -> None:
    """The demo runs the same recipes with the same seeds, so it prints the published numbers."""
    kept = ROOT / "results" / "runs" / "families"
    table = plain_text(
        comparison_table(load_results([kept / f"families-conv4-{name}" for name in METHODS]))
    ).strip()
    assert any(table in block for block in blocks("README.md", ""))


@pytest.mark.usefixtures("tiny_set")
def test_the_python_example_scores_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As written, but with random weights, and on small tasks of a small set."""
    code = example("README.md", "evaluate")
    monkeypatch.chdir(tmp_path)
    config = ModelConfig(backbone_options={"input_size": 16}, adapter="weighing")
    save_weights(build_model(config), config, Path("fewset-demo/families-conv4-weighing/model.safetensors"))
    for given, small in (('"families"', '"tiny"'), ("query=15", "query=5"), ("10_000", "11")):
        assert given in code
        code = code.replace(given, small)
    exec(code, {})
    assert re.fullmatch(r"\d+\.\d\d ± \d+\.\d\d %\n", capsys.readouterr().out)


# The classifier


def shown(command: str) -> tuple[list[str], str]:
    """The words of the one command of the README that begins so, and the output in the block behind it."""
    found = blocks("README.md", "")
    (place,) = (number for number, block in enumerate(found) if block.startswith(f"fewset {command} "))
    return found[place].split()[1:], found[place + 1]


def without_numbers(text: str) -> str:
    """Another machine may round otherwise."""
    return re.sub(r"\d+ (to \d+ )?%", "# %", text)


@pytest.mark.slow
def test_the_classifier_says_what_the_readme_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_birds(tmp_path)
    monkeypatch.chdir(tmp_path)
    for command in ("fit", "predict"):
        words, output = shown(command)
        done = fewset_in_a_new_process(*words)
        assert (done.returncode, done.stderr) == (0, "")
        assert without_numbers(done.stdout) == without_numbers(output)


@pytest.mark.slow
@pytest.mark.parametrize("document", ["README.md", "docs/classify.md"])
def test_the_classifier_in_python(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On photos of other things than birds."""
    monkeypatch.chdir(tmp_path)
    write_photos(Path("photos"), 4)
    for name in ("new/duck.jpg", "new/teapot.jpg", "more/1.jpg"):
        Path(name).parent.mkdir(exist_ok=True)
        photo("grass", 1).save(name)
    exec(example(document, "FewShotClassifier"), {})
    printed = capsys.readouterr().out
    assert "grass" in printed
    assert Path("birds.fewset").exists()


@pytest.mark.parametrize("document", ["README.md", "docs/classify.md"])
def test_commands_have_the_options_that_are_written(document: str) -> None:
    commands = get_command(app).commands
    lines = [line for block in blocks(document, "") for line in block.replace("\\\n", "").splitlines()]
    called = [
        line.partition("fewset ")[2].split() for line in lines if line.startswith(("fewset ", "torchrun "))
    ]
    assert len(called) > 5
    for name, *words in called:
        group = commands[name]
        parts = getattr(group, "commands", None)
        command = parts[words[0]] if parts else group
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= known, name
