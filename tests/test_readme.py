"""The examples of the README, and of the pages that start with it, work as written."""

import re
import shutil
from pathlib import Path
from zipfile import ZipFile

import pytest
from typer.main import get_command

from fewset.cli.app import app
from fewset.cli.demo import METHODS
from fewset.experiments.build import build_model
from fewset.experiments.config import ModelConfig
from fewset.experiments.weights import save_weights
from fewset.report.loading import load_results
from fewset.report.tables import comparison_table, plain_text
from tests.helpers.command_line import fewset_in_a_new_process
from tests.helpers.guides import ROOT, blocks, example
from tests.helpers.photos import photo, write_photos
from tests.helpers.real_files import real_file


def test_the_demo_table_is_that_of_the_published_results() -> None:
    """The demo runs the same recipes with the same seeds, so it prints the published numbers."""
    kept = ROOT / "results" / "runs" / "families"
    table = plain_text(
        comparison_table(load_results([kept / f"families-conv4-{name}" for name in METHODS]))
    ).strip()
    assert any(table in block for block in blocks("docs/research.md", ""))


@pytest.mark.usefixtures("tiny_set")
def test_the_python_example_scores_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As written, but with random weights, and on small tasks of a small set."""
    code = example("docs/research.md", "evaluate")
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


def write_birds(folder: Path) -> None:
    """`photos/` with five photos of each of five birds, and a sixth that is a duck's; `new/` with others."""
    birds = ("duck", "owl", "parrot", "penguin", "swan")
    copies = {f"photos/{bird}/{number + 1}.jpg": (bird, number) for bird in birds for number in range(5)}
    others = ("duck", 5), ("owl", 5), ("parrot", 5), ("swan", 6), ("teapot", 0)
    copies |= {f"new/{label}.jpg": (label, number) for label, number in others}
    with ZipFile(real_file("sketchy.zip")) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".jpg"))
        for target, (label, number) in copies.items():
            own = [name for name in names if name.startswith(f"sketchy/Photo/{label}/")]
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            (folder / target).write_bytes(archive.read(own[number]))
    shutil.copy(folder / "photos/duck/2.jpg", folder / "photos/swan/6.jpg")
    (folder / "new" / "unfinished.jpg").write_bytes((folder / "new" / "owl.jpg").read_bytes()[:2000])


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


@pytest.mark.parametrize(
    "document", ["README.md", "docs/classify.md", "docs/photos.md", "docs/research.md", "docs/recipes.md"]
)
def test_commands_have_the_options_that_are_written(document: str) -> None:
    commands = get_command(app).commands
    lines = [line for block in blocks(document, "") for line in block.replace("\\\n", "").splitlines()]
    called = [
        line.partition("fewset ")[2].split() for line in lines if line.startswith(("fewset ", "torchrun "))
    ]
    assert called
    for name, *words in called:
        group = commands[name]
        parts = getattr(group, "commands", None)
        command = parts[words[0]] if parts else group
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= known, name
