"""The commands as a user types them: exit codes, one-line errors, files."""

import json
import re
import shutil
from pathlib import Path

import pytest
from PIL import Image
from typer.main import get_command

from fewset.cli import app as cli
from fewset.data.images.importers import IMPORTERS
from fewset.data.images.store import open_set
from fewset.experiments.evaluate import command_line
from tests.helpers.command_line import PRETRAIN, TRAIN, fail, options, succeed


def every_command() -> list[list[str]]:
    """The words of each command: of the top, and of the groups such as `data`."""
    found = []
    for name, command in get_command(cli.app).commands.items():
        found += [[name, part] for part in getattr(command, "commands", {})] or [[name]]
    return found


@pytest.mark.parametrize("command", every_command(), ids=" ".join)
def test_help_has_an_example(command: list[str]) -> None:
    output = re.sub(r"\s+", " ", succeed(*command, "--help"))
    assert f"Example: fewset {' '.join(command)}" in output


def test_version() -> None:
    assert re.match(r"fewset \d+\.\d+\.\d+", succeed("--version"))


@pytest.mark.parametrize("program", ["/somewhere/bin/fewset", "/somewhere/fewset/__main__.py"])
def test_results_know_the_command_however_it_was_started(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [program, "eval", "a run"])
    assert command_line() == "fewset eval 'a run'"


@pytest.mark.usefixtures("tiny_set")
def test_from_recipe_to_report(tmp_path: Path) -> None:
    runs = ["--runs", tmp_path]
    succeed("pretrain", "strokes/pretrain", *runs, *options(PRETRAIN))
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
    succeed("report", *pair, "--out", tmp_path / "report")
    assert (tmp_path / "report" / "report.html").stat().st_size > 10_000


@pytest.mark.usefixtures("tiny_set")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "strokes/fat"], "unknown recipe"),
        (["train", "strokes/feat", "--set", "train.epoch=1"], "unknown recipe key"),
        (["train", "strokes/pretrain"], "use `fewset pretrain`"),
        (["train", "strokes/feat", "strokes/fat"], "unknown recipe 'strokes/fat'"),
        (["train", "strokes/feat", "strokes/protonet", "--out", "one"], "2 recipes, but 1 run directories"),
        (["train", "strokes/feat", "strokes/feat"], "give each recipe once"),
        (["train", "strokes/feat", "--plugin", "absent.py"], "no plugin file"),
        (["eval", "absent"], "unknown run directory, weights file or released model 'absent'"),
        (["compare", "one"], "two or more runs"),
        (["data", "info", "absent"], "unknown image set"),
        (["data", "import", "folders", "absent"], "unknown kind"),
        (["nonsense"], "No such command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_user_errors_name_the_mistake(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in fail(*words)
    assert not (tmp_path / "runs").exists()


def test_main_prints_one_line_and_exits_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["fewset", "data", "info", "[absent]"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert "[absent]" in error


def photos(folder: Path) -> Path:
    for number in range(7):
        (folder / f"class{number}").mkdir(parents=True)
        for item in range(3):
            Image.new("RGB", (31, 37), (30 * number, 60 * item, 99)).save(
                folder / f"class{number}" / f"{item}.png"
            )
    return folder


def test_import_list_info_verify(tmp_path: Path) -> None:
    source = photos(tmp_path / "photos")
    output = succeed("data", "import", "folder", source, "--name", "mine", "--size", 16)
    assert "train" in output
    assert "mine" in succeed("data", "list")
    assert open_set("mine").digest in succeed("data", "info", "mine")
    assert "every byte is as it was written" in succeed("data", "verify", "mine")


def test_verify_warns_and_shows_a_contact_sheet(tmp_path: Path) -> None:
    assert "warning: " in succeed("data", "import", "folder", photos(tmp_path / "miniimagenet"))
    sheet = tmp_path / "sheets" / "mini.png"
    output = succeed("data", "verify", "miniimagenet", "--sheet", sheet)
    assert "warning: 21 items, expected 60,000" in output
    assert str(sheet) in output
    with Image.open(sheet) as image:
        assert image.format == "PNG"


def test_the_help_of_import_lists_the_kinds() -> None:
    output = re.sub(r"[\s│]+", " ", succeed("data", "import", "--help"))
    assert f"The layout: {', '.join(sorted([*IMPORTERS, 'features']))}." in output


def test_a_set_from_elsewhere_is_not_replaced_unasked(tmp_path: Path) -> None:
    source = photos(tmp_path / "one" / "photos")
    succeed("data", "import", "folder", source, "--size", 16)
    succeed("data", "import", "folder", source, "--size", 20)  # the same source: a set made anew
    other = tmp_path / "two" / "photos"
    shutil.copytree(source, other)
    assert "--force" in fail("data", "import", "folder", other)
    assert open_set("photos").images.shape[1] == 20
    succeed("data", "import", "folder", other, "--force")
    assert open_set("photos").images.shape[1] == 92
