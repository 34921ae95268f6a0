from pathlib import Path

import pytest

from fewset.runtime.paths import recorded_path, without_machine


def test_paths_are_recorded_from_where_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, work = tmp_path / "home" / "ann", tmp_path / "work"
    for folder in (home / "project", work):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    assert recorded_path(work / "runs" / "feat") == "runs/feat"
    assert recorded_path("runs/feat") == "runs/feat"
    assert recorded_path(tmp_path / "data") == "../data"
    assert recorded_path(home / "photos") == "~/photos"
    assert without_machine(str(home / "photos")) == "~/photos"
    assert without_machine("miniimagenet") == "miniimagenet"
    monkeypatch.chdir(home / "project")
    assert recorded_path(home / "photos") == "../photos"
    assert recorded_path(home / "project" / "a") == "a"
