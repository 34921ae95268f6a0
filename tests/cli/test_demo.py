"""The demo's options reach it; what it does is tested in `tests/paper`."""

from pathlib import Path

import pytest

from tests.helpers.command_line import succeed


def test_the_options_of_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []
    monkeypatch.setattr("fewset.paper.demo.demo", lambda *words: given.extend(words))
    succeed("demo", "--out", tmp_path, "--device", "cpu")
    assert (given[0], given[2]) == (tmp_path, "cpu")
