"""The suite itself: helpers in one place, and no test that is skipped without a remedy."""

import ast
import re
from pathlib import Path

import pytest

from tests.helpers.real_files import VARIABLE, real_file

TESTS = Path(__file__).parent
FILES = sorted(TESTS.rglob("*.py"))
TREES = {path.relative_to(TESTS): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def imported_modules(tree: ast.Module) -> list[str]:
    """Every module that may be meant: `from tests.cli import app` is tests.cli and tests.cli.app."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


def test_no_test_module_is_imported_by_another() -> None:
    for path, tree in TREES.items():
        for module in imported_modules(tree):
            parts = module.split(".")
            tests = parts[0] in ("tests", "") and any(part.startswith("test_") for part in parts)
            assert not tests, f"{path} imports {module}: what both need belongs to tests/helpers"


def test_every_room_of_tests_is_a_room_of_the_package() -> None:
    package = TESTS.parent / "fewset"
    own = {TESTS, *(TESTS / name for name in ("examples", "helpers", "fuzz", "fuzz/readers"))}
    for folder in {path.parent for path in FILES} - own:
        assert (package / folder.relative_to(TESTS)).is_dir(), (
            f"there is no fewset/{folder.relative_to(TESTS)}"
        )


def skips(tree: ast.Module) -> list[ast.Call]:
    """The calls by which a test is left out or may fail: skip, skipif, importorskip, xfail."""
    names = {"skip", "skipif", "importorskip", "xfail"}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in names]


def reason_of(call: ast.Call) -> str:
    """The text of a reason, its inserted values left out."""
    given = [word.value for word in call.keywords if word.arg in ("reason", "msg")]
    if not given and isinstance(call.func, ast.Attribute) and call.func.attr == "skip":
        given = call.args
    texts = [node.value for reason in given for node in ast.walk(reason) if isinstance(node, ast.Constant)]
    return "".join(text for text in texts if isinstance(text, str))


REMEDY = re.compile(r"\b(set|install|run|get) ")


def test_whatever_is_skipped_says_what_to_do_about_it() -> None:
    found = [(path, call) for path, tree in TREES.items() for call in skips(tree)]
    assert found
    for path, call in found:
        assert REMEDY.search(reason_of(call)), f"{path}, line {call.lineno}: a skip without a remedy"


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("pytest.skip()", False),
        ("pytest.skip('not here')", False),
        ("pytest.skip(f'{name} is not here: set X to a directory')", True),
        ("pytest.mark.skipif(set_ == 1, reason='no GPU')", False),
        ("pytest.importorskip('onnx', reason='install fewset[export]')", True),
        ("pytest.importorskip('onnx')", False),
    ],
)
def test_a_skip_with_and_without_a_remedy(source: str, named: bool) -> None:
    (call,) = skips(ast.parse(source))
    assert bool(REMEDY.search(reason_of(call))) == named


def test_real_files_are_found_by_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "data"))
    for name in ("data/birds.zip", "paper/feat.tex"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
        assert real_file(Path(name).name) == tmp_path / name
    with pytest.raises(
        pytest.skip.Exception, match=rf"no cats\.zip in .*data: set {VARIABLE} to a directory"
    ):
        real_file("cats.zip")
