"""The rooms: imports go one way, private names stay in their file, heavy libraries where they belong."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fewset

PACKAGE = Path(fewset.__file__).parent

# A room may import from those above it (and from itself), never from those below.
ROOMS = [
    "core",
    "io",
    "compute",
    "tasks",
    "models",
    "encoders",
    "data",
    "evaluation",
    "training",
    "experiments",
    "classify",
    "report",
    "paper",
    "bench",
    "cli",
]
ONLY_IN = {
    "PIL": {"data", "classify"},
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


def test_there_are_these_rooms_and_no_others() -> None:
    assert {room_of(path) for path in FILES} - {"__init__", "__main__"} <= set(ROOMS)


def test_imports_go_from_top_to_bottom() -> None:
    for path, module, name in imports():
        head, _, rest = module.partition(".")
        room = rest.split(".")[0] or name
        if head == "fewset" and room in ROOMS and room_of(path) in ROOMS:
            assert ROOMS.index(room) <= ROOMS.index(room_of(path)), f"{path} imports {module}"


def test_private_names_are_used_in_their_own_file() -> None:
    for path, module, name in imports():
        if module.startswith("fewset"):
            assert not name.startswith("_") or name == "__version__", f"{path} imports {name} of {module}"


def test_libraries_stay_where_they_belong() -> None:
    for path, module, _ in imports():
        allowed = ONLY_IN.get(module.split(".")[0])
        assert allowed is None or room_of(path) in allowed, f"{path} imports {module}"


@pytest.mark.parametrize(
    "modules",
    [
        "fewset, fewset.cli.app, fewset.data.images.store",
        "fewset; fewset.Score, fewset.Difference, fewset.compare, fewset.TaskSpec",
    ],
)
def test_help_and_scores_need_neither_torch_nor_pictures(modules: str) -> None:
    program = (
        f"import sys, {modules}\n"
        "heavy = {'torch', 'PIL', 'matplotlib', 'jinja2'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_public_name_is_there() -> None:
    for name in fewset.__all__:
        assert getattr(fewset, name) is not None
    assert set(fewset.__all__) <= set(dir(fewset))


@pytest.mark.parametrize("command", ["compare", "report"])
def test_results_are_compared_and_reported_without_torch(command: str, tmp_path: Path) -> None:
    kept = PACKAGE.parent / "results" / "runs" / "strokes"
    words = [command, str(kept / "strokes-protonet"), str(kept / "strokes-feat")]
    words += ["--out", str(tmp_path)] if command == "report" else []
    program = (
        "import sys\nfrom fewset.cli.app import app\n"
        f"app({words!r}, standalone_mode=False)\n"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
