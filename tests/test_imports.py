"""Imports go one way, and the heavy libraries stay where they belong."""

import ast
import subprocess
import sys
from pathlib import Path

import fewset

PACKAGE = Path(fewset.__file__).parent

# A module may import from those above it (and from its own package), never from those below.
ORDER = [
    "errors",
    "files",
    "shipped",
    "machine",
    "distributed",
    "progress",
    "devices",
    "episode",
    "similarity",
    "sampling",
    "adapters",
    "backbones",
    "data",
    "model",
    "maml",
    "heads",
    "losses",
    "evaluation",
    "training",
    "settings",
    "recipes",
    "released",
    "weights",
    "embed",
    "authors",
    "results",
    "runs",
    "report",
    "studies",
    "bench",
    "demo",
    "plugins",
    "cli",
]
ONLY_IN = {"PIL": {"data"}, "matplotlib": {"report"}, "jinja2": {"report"}, "typer": {"cli"}}


def imports() -> list[tuple[str, str]]:
    """(part of the package, imported module) for every import statement, those inside functions too."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found += [(part, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path} imports relatively"
                found.append((part, node.module or ""))
    return found


def test_every_part_has_its_place_in_the_order() -> None:
    parts = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE.rglob("*.py")}
    assert parts - {"__init__", "__main__"} <= set(ORDER)


def test_imports_go_from_top_to_bottom() -> None:
    for part, module in imports():
        head, _, rest = module.partition(".")
        if head == "fewset" and rest and part not in ("__init__", "__main__"):
            imported = rest.split(".")[0]
            assert ORDER.index(imported) <= ORDER.index(part), f"{part} imports {module}"


def test_libraries_stay_where_they_belong() -> None:
    for part, module in imports():
        allowed = ONLY_IN.get(module.split(".")[0])
        assert allowed is None or part in allowed, f"{part} imports {module}"


def test_help_and_import_need_neither_torch_nor_pictures() -> None:
    program = (
        "import sys, fewset, fewset.cli, fewset.data.store\n"
        "heavy = {'torch', 'PIL', 'matplotlib', 'jinja2'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_public_name_is_there() -> None:
    for name in fewset.__all__:
        assert getattr(fewset, name) is not None
    assert set(fewset.__all__) <= set(dir(fewset))
