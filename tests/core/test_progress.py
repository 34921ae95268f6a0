import pytest

from fewset.core.progress import progress


def test_where_colours_are_forced_there_is_no_bar_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Jupyter sets FORCE_COLOR for the commands of a cell, and shows what they write to stderr."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("photos", 3) as advance:
        advance()
    assert capsys.readouterr().err == ""
