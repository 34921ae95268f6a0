"""`fewset data`: import, list, info, verify."""

import shutil
from pathlib import Path

import pytest
from PIL import Image

from fewset.data.images.store import open_set
from tests.helpers.command_line import fail, succeed


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
    before = sheet.read_bytes()
    assert f"{sheet} exists" in fail("data", "verify", "miniimagenet", "--sheet", sheet)
    assert sheet.read_bytes() == before


IMPORTER = """
from fewset.data.images.importers import Entry, register_importer

@register_importer("prefixed", size=11)
def entries(source):
    "The class is the beginning of a file's name."
    return [Entry(file, file.split("_")[0], "train") for file in source.files]
"""


def test_import_by_an_importer_of_a_plugin(tmp_path: Path) -> None:
    plugin = tmp_path / "prefixed.py"
    plugin.write_text(IMPORTER)
    (tmp_path / "birds").mkdir()
    for name in ("owl_1", "owl_2", "kite_1"):
        Image.new("RGB", (13, 17)).save(tmp_path / "birds" / f"{name}.png")
    words = ("data", "import", "prefixed", tmp_path / "birds")
    assert "unknown kind of source 'prefixed'" in fail(*words)
    succeed(*words, "--plugin", plugin)
    assert open_set("birds").class_names == ("kite", "owl")
    assert open_set("birds").images.shape == (3, 11, 11, 3)


def test_long_names_are_legible_on_a_narrow_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = "photographs-of-birds-taken-in-the-garden-between-spring-and-autumn-2019"
    succeed("data", "import", "folder", photos(tmp_path / "photos"), "--name", name, "--size", 16)
    lines = succeed("data", "list").splitlines()
    assert max(map(len, lines[:-1])) <= 80
    cells = [line.split("│")[1].strip() for line in lines if line.startswith("│")]
    assert name in "".join(cells)


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
