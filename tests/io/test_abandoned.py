"""The next process removes temporary files of killed processes, which it knows by their ids."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fewset.io import paths
from fewset.io.files import abandoned, clear_all, replacing_directory, write_text
from fewset.io.paths import partial_path


def left_by(process: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary name of a file that a process was writing."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: process)
        return partial_path(path)


@pytest.fixture(scope="module")
def dead() -> int:
    """The id of a process that has ended."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    return ended.pid


def test_the_next_writer_clears_what_a_dead_process_left(
    tmp_path: Path, dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, folder = (left_by(dead, tmp_path / name, monkeypatch) for name in ("result.json", "birds"))
    file.write_bytes(b"half")
    (folder / "deep").mkdir(parents=True)
    mine = partial_path(tmp_path / "mine")
    mine.write_bytes(b"being written")
    parents = left_by(os.getppid(), tmp_path / "parents", monkeypatch)
    parents.write_bytes(b"being written")
    assert abandoned(tmp_path) == sorted([file, folder])
    write_text(tmp_path / "other.json", "{}")
    assert sorted(tmp_path.iterdir()) == sorted([mine, parents, tmp_path / "other.json"])


def test_another_machine_s_are_left_alone(tmp_path: Path, dead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(paths, "HOST", "0" * 6)
        left_by(dead, tmp_path / "file", patch).write_bytes(b"half")
    (tmp_path / ".file.123.partial").write_bytes(b"somebody else's")
    assert abandoned(tmp_path) == []
    assert abandoned(tmp_path / "absent") == []


def test_another_container_s_are_left_alone(tmp_path: Path, dead: int) -> None:
    """It may have the name of the host; the ids of its processes are its own."""
    write = (
        "import os, sys; from pathlib import Path; from fewset.io.paths import partial_path; "
        f"os.getpid = lambda: {dead}; partial_path(Path(sys.argv[1])).touch()"
    )
    python = [sys.executable, "-c", write, str(tmp_path / "x")]
    container = subprocess.run(["unshare", "--pid", "--fork", *python], capture_output=True)
    if container.returncode:
        pytest.skip(f"run it as root, it needs a PID namespace: {container.stderr.decode().strip()}")
    assert len(list(tmp_path.iterdir())) == 1
    assert abandoned(tmp_path) == []
    subprocess.run(python, check=True)
    assert len(abandoned(tmp_path)) == 1


def test_a_directory_whose_successor_never_came_is_put_back(
    tmp_path: Path, dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = left_by(dead, tmp_path / "birds", monkeypatch)
    half.mkdir()
    old = half.with_suffix(".old")
    old.mkdir()
    (old / "images").write_bytes(b"all of them")
    clear_all(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["birds"]
    assert (tmp_path / "birds" / "images").read_bytes() == b"all of them"


def test_a_directory_that_was_replaced_is_gone(
    tmp_path: Path, dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_by(dead, tmp_path / "birds", monkeypatch).with_suffix(".old").mkdir()
    with replacing_directory(tmp_path / "birds") as new:
        (new / "images").write_bytes(b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["birds"]
    assert (tmp_path / "birds" / "images").read_bytes() == b"new"


@pytest.mark.parametrize("whole", [True, False])
def test_a_link_is_replaced_and_not_what_it_leads_to(tmp_path: Path, whole: bool) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    if whole:
        elsewhere.mkdir()
        (elsewhere / "images").write_bytes(b"mine")
    (home / "birds").symlink_to("../elsewhere")
    with replacing_directory(home / "birds") as new:
        (new / "images").write_bytes(b"new")
    assert [path.name for path in home.iterdir()] == ["birds"]
    assert (home / "birds" / "images").read_bytes() == b"new"
    assert not whole or (elsewhere / "images").read_bytes() == b"mine"
