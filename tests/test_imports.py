"""The rooms: imports go one way, and private names and heavy libraries stay where they belong."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import fewset
from fewset.classify.classifier import FewShotClassifier
from tests.helpers.photos import write_photos

PACKAGE = Path(fewset.__file__).parent

# A room may import from those before it (and from itself), never from those after it.
ROOMS = [
    *("core", "io", "compute", "tasks", "models", "encoders", "data", "evaluation", "training"),
    *("experiments", "classify", "report", "paper", "bench", "cli"),
]
ONLY_IN = {
    "PIL": {"data", "classify"},
    "h5py": {"io"},
    "matplotlib": {"report", "paper"},
    "jinja2": {"report", "classify"},
    "typer": {"cli"},
    "click": {"cli"},
    "mlflow": {"experiments"},
    "tensorboard": {"experiments"},
    "wandb": {"experiments"},
}
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def imports() -> list[tuple[Path, str, str]]:
    """(file, imported module, imported name or "") for every import statement, those inside functions too."""
    found = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found += [(path, alias.name, "") for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path} imports relatively"
                found += [(path, node.module or "", alias.name) for alias in node.names]
    return found


def test_imports_go_from_top_to_bottom() -> None:
    for path, module, name in imports():
        head, _, rest = module.partition(".")
        room = rest.split(".")[0] or name
        if head == "fewset" and room in ROOMS and room_of(path) not in ("__init__", "__main__"):
            assert ROOMS.index(room) <= ROOMS.index(room_of(path)), f"{path} imports {module}"


def test_private_names_are_used_in_their_own_file() -> None:
    for path, module, name in imports():
        if module.startswith("fewset"):
            assert not name.startswith("_") or name == "__version__", f"{path} imports {name} of {module}"


def test_libraries_stay_where_they_belong() -> None:
    for path, module, _ in imports():
        allowed = ONLY_IN.get(module.split(".")[0])
        assert allowed is None or room_of(path) in allowed, f"{path} imports {module}"


def test_the_files_that_the_page_about_the_code_names_are_there() -> None:
    page = (PACKAGE.parent / "docs" / "code.md").read_text()
    named = re.findall(r"`([a-z_0-9/]+\.py)`", page)
    assert len(named) > 30
    assert [name for name in named if not (PACKAGE / name).exists()] == []


KEPT = PACKAGE.parent / "results" / "runs" / "strokes"
RUNS = [str(KEPT / "strokes-protonet"), str(KEPT / "strokes-feat")]
COMMAND = "from fewset.cli.app import app; app({}, standalone_mode=False)"


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        ("import fewset, fewset.cli.app, fewset.data.images.store", "torch PIL matplotlib jinja2"),
        ("import fewset.data.images.importing, fewset.data.features.importer", "torch matplotlib jinja2"),
        ("from fewset import Score, Difference, compare, TaskSpec", "torch PIL matplotlib jinja2"),
        (COMMAND.format(["compare", *RUNS]), "torch"),
        (COMMAND.format(["report", *RUNS, "--out", "report"]), "torch"),
    ],
    ids=["help", "imports of data", "scores", "compare", "report"],
)
def test_heavy_libraries_are_imported_where_they_are_used(
    program: str, unwanted: str, tmp_path: Path
) -> None:
    check = f"import sys; sys.exit(any(name in sys.modules for name in {unwanted.split()}))"
    subprocess.run([sys.executable, "-c", f"{program}\n{check}"], check=True, cwd=tmp_path)


SERVE = """
from pathlib import Path
import fewset.classify.serve.server
from fewset.classify.serve.workbench import open_workbench
open_workbench(Path("my.fewset"), None, "auto")[1].close()
"""
FIT = COMMAND.format(["fit", "photos", "-o", "again.fewset"])
PREDICT = COMMAND.format(["predict", "my.fewset", "photos/grass/0.png", "--reject", "--csv", "answers.csv"])
EDIT = "\n".join(
    COMMAND.format([words[0], "my.fewset", *words[1:]])
    for words in (
        ["add", "photos/grass/0.png", "--label", "lawn"],
        ["rename", "lawn", "grass", "--merge"],
        ["score", "photos"],
        ["suggest", "photos", "--page", "next.html", "--csv", "next.csv"],
        ["remove", "grass"],
    )
)


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        pytest.param(PREDICT, "torch sklearn scipy matplotlib", id="predict"),
        pytest.param(FIT, "torch", id="fit", marks=pytest.mark.slow),
        pytest.param(EDIT, "torch", id="edit, score and suggest", marks=pytest.mark.slow),
        pytest.param(SERVE, "torch", id="serve", marks=pytest.mark.slow),
    ],
)
def test_with_onnxruntime_a_classifier_needs_no_torch(program: str, unwanted: str, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", shots=1)
    FewShotClassifier().fit(photos).save(tmp_path / "my.fewset")
    check = f"import sys; sys.exit(any(name in sys.modules for name in {unwanted.split()}))"
    subprocess.run([sys.executable, "-c", f"{program}\n{check}"], check=True, cwd=tmp_path)
