from pathlib import Path

import pytest

from fewset.core.errors import UserError
from fewset.data.manifest import home
from fewset.io.paths import inside, recorded_path, without_machine


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


def test_a_user_without_a_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a user id without a name."""

    def unknown(_: object) -> None:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.setattr("pwd.getpwnam", unknown)
    for variable in ("HOME", "XDG_DATA_HOME", "FEWSET_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    assert recorded_path(tmp_path / "photos") == "photos"
    with pytest.raises(UserError, match="FEWSET_HOME"):
        home()
    monkeypatch.setenv("FEWSET_HOME", "~nobody-of-this-name/sets")
    with pytest.raises(UserError, match="~nobody-of-this-name/sets is in the directory of a user"):
        home()


def test_links_inside_a_directory_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "b").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a").symlink_to("../elsewhere")
    for part in ("a", "a/b", Path("a") / "absent"):
        with pytest.raises(UserError, match="here/a is a link"):
            inside(tmp_path / "here", part)
    assert inside(tmp_path / "here", "b/c") == tmp_path / "here" / "b" / "c"
    (tmp_path / "linked").symlink_to("here")
    assert inside(tmp_path / "linked", "b") == tmp_path / "linked" / "b"
