"""What is printed of models."""

import pytest

from fewset.cli.models import list_methods
from fewset.experiments.weights import released_models
from fewset.models.adapters import ADAPTERS
from tests.helpers.command_line import succeed


@pytest.mark.parametrize("command", ["weights", "params", "paper", "ablate"])
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


def test_every_method_is_listed_with_its_kind_and_what_it_needs() -> None:
    rows = table_rows(succeed("params"))
    for _, name, about in list_methods():
        assert [name, about.kind, ", ".join(about.needs())] in [row[:3] for row in rows]
        assert any(row[0] == name and about.paper in row[3] for row in rows)
    assert {row[0] for row in rows} >= set(ADAPTERS)


def table_rows(printed: str) -> list[list[str]]:
    """The cells of a printed table, each on one line, however many it takes in the table."""
    rows: list[list[str]] = []
    for line in (line for line in printed.splitlines() if line.startswith("│")):
        cells = [cell.strip() for cell in line.strip("│").split("│")]
        if cells[0]:
            rows.append(cells)
        else:  # the rest of a long cell
            rows[-1] = [" ".join(filter(None, both)) for both in zip(rows[-1], cells, strict=True)]
    return rows
