"""What is printed of models."""

import pytest

from fewset.experiments.zoo import released_models
from fewset.models.adapters import ADAPTERS
from fewset.models.methods import list_methods
from tests.helpers.command_line import succeed


@pytest.mark.parametrize("command", ["methods", "weights", "params", "paper", "ablate"])
def test_lists_fit_80_columns(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line for line in succeed(command).splitlines() if not line.startswith("in ")]
    assert 40 < max(map(len, lines)) <= 80


def test_each_released_model_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = succeed("weights").splitlines()
    for name in released_models():
        (line,) = (line for line in lines if name in line.replace("│", " ").split())
        assert line.count("│") == 5
        assert "kB" in line


def test_every_method_is_listed_with_its_kind_and_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    lines = succeed("methods").splitlines()
    for _, name, about in list_methods():
        (line,) = (line for line in lines if line.startswith(f"│ {name} "))
        assert all(words in line for words in (about.kind, ", ".join(about.needs()), about.paper))


def test_params_lists_every_adapter() -> None:
    output = succeed("params")
    assert all(f"│ {name} " in output for name in ADAPTERS)
