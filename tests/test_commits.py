"""Every number that is kept in docs/ names a commit of this repository's own history."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "docs").rglob("*.json"))


def git(*words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *words], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture(scope="module")
def history() -> set[str]:
    """All commits up to this one."""
    if not (ROOT / ".git").exists():
        pytest.skip(f"{ROOT} is no repository: run this test in a clone")
    if git("rev-parse", "--is-shallow-repository") == "true":
        pytest.skip("this clone is shallow: get the whole history with `git fetch --unshallow`")
    return set(git("rev-list", "HEAD").splitlines())


def commits(value: Any) -> Iterator[str]:
    """What any table of a JSON file calls its commit."""
    if isinstance(value, dict):
        yield from (value[key] for key in ("commit",) if key in value)
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from commits(part)


def test_every_number_was_made_by_a_commit_of_this_history(history: set[str]) -> None:
    found = {file: set(commits(json.loads(file.read_text(encoding="utf-8")))) for file in FILES}
    assert any(found.values())
    for file, names in found.items():
        assert names <= history, f"{file} was made by {', '.join(names - history)}"
