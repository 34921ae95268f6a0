"""The demo's options reach it; what it does is tested in `tests/paper`."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.helpers.command_line import succeed


def test_the_options_of_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []

    def demo(*words: object, log_to: Sequence[str]) -> None:
        given.extend([*words, log_to])

    monkeypatch.setattr("fewset.paper.demo.demo", demo)
    succeed("demo", "--out", tmp_path, "--device", "cpu")
    assert (given[0], *given[2:]) == (tmp_path, "cpu", ())
