"""A few of the kills that `make kills` does by the dozen."""

from pathlib import Path

import pytest

from tests.fuzz.kills import check_same, left_over, tree_of


def test_what_differs_is_seen(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "result.json").write_text('{"mean": 0.5, "seconds": 3}')
    (tmp_path / "run" / "model").write_bytes(b"abc")
    before = tree_of(tmp_path / "run")
    (tmp_path / "run" / "result.json").write_text('{"mean": 0.5, "seconds": 4}')
    check_same(before, tree_of(tmp_path / "run"), left_over(tmp_path))
    (tmp_path / "run" / "result.json").write_text('{"mean": 0.6, "seconds": 4}')
    with pytest.raises(AssertionError, match=r"result\.json differs"):
        check_same(before, tree_of(tmp_path / "run"), [])
    (tmp_path / ".x.1.partial").touch()
    with pytest.raises(AssertionError, match=r"left over: \['\.x\.1\.partial'\]"):
        check_same(before, before, left_over(tmp_path))
    (tmp_path / "run" / "more").touch()
    with pytest.raises(AssertionError, match="other files"):
        check_same(before, tree_of(tmp_path / "run"), [])
