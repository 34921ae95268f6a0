"""Files that are whole, on the disk, and with digests beside them: of what is there, or none."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from fewset.core.errors import UserError
from fewset.io import files
from fewset.io.files import check_digest, digest_path, replacing, replacing_directory, replacing_with_digest
from tests.helpers.disks import SPECIAL, make_special


def write(path: Path, content: bytes) -> None:
    with replacing_with_digest(path) as temporary:
        temporary.write_bytes(content)


def test_a_digest_is_what_sha256sum_writes(tmp_path: Path) -> None:
    path = tmp_path / "a file"
    write(path, b"old")
    write(path, b"content")
    assert sorted(tmp_path.iterdir()) == [path, digest_path(path)]
    expected = subprocess.run(
        ["sha256sum", path.name], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert digest_path(path).read_text() == expected.stdout
    check_digest(path)


@pytest.mark.parametrize("damaged", ["file", "digest", "empty digest"])
def test_damage_of_either_is_noticed(damaged: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, b"content")
    if damaged == "file":
        path.write_bytes(b"Content")
    else:
        digest_path(path).write_bytes(b"" if damaged == "empty digest" else bytes(64) + b"  file\n")
    with pytest.raises(UserError, match=r"file is damaged: .* remove file\.sha256 if you changed"):
        check_digest(path)
    digest_path(path).unlink()
    check_digest(path)


def test_a_digest_that_is_no_file_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    os.mkfifo(tmp_path / "file.sha256")
    with pytest.raises(OSError, match="is not a regular file"):
        check_digest(tmp_path / "file")


@pytest.mark.parametrize("stopped", ["in the block", "before the rename", "before the digest"])
def test_a_stop_never_leaves_the_digest_of_another_file(
    stopped: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write(path, b"old")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    if stopped == "before the rename":
        monkeypatch.setattr(Path, "replace", stop)
    if stopped == "before the digest":
        monkeypatch.setattr(files, "write_text", stop)
    if stopped == "in the block":
        monkeypatch.setattr(Path, "write_bytes", stop)
    with pytest.raises(KeyboardInterrupt):
        write(path, b"new")
    check_digest(path)
    assert path.read_bytes() == (b"new" if stopped == "before the digest" else b"old")
    assert digest_path(path).exists() == (stopped == "in the block")


@pytest.mark.parametrize("umask", [0o022, 0o027])
def test_others_may_read_a_file_as_they_may_any_new_one(umask: int, tmp_path: Path) -> None:
    """Whatever the writer thinks: safetensors makes files that their owner alone may read."""
    before = os.umask(umask)
    try:
        with replacing(tmp_path / "weights") as temporary:
            save_file({"one": np.zeros(3)}, temporary)
    finally:
        os.umask(before)
    assert (tmp_path / "weights").stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("replace", [replacing, replacing_directory])
def test_what_is_no_file_is_not_replaced(kind: str, replace: Callable[[Path], Any], tmp_path: Path) -> None:
    """A device that a file has taken the place of is gone for all."""
    place = tmp_path / "special"
    make_special(place, kind)
    before = place.lstat()
    with pytest.raises(UserError, match="not a regular file"), replace(place):
        pytest.fail("nothing is to be written")
    assert (place.lstat().st_mode, place.lstat().st_ino) == (before.st_mode, before.st_ino)


def test_no_name_in_dev_is_taken() -> None:
    """Such as /dev/stdout, a link that may lead to a file."""
    for place in (Path("/dev/fewset-was-here"), Path("/dev/fewset/was/here")):
        with pytest.raises(UserError, match="choose another name"), replacing(place):
            pytest.fail("nothing is to be written")
    assert not Path("/dev/fewset").exists()


@pytest.mark.parametrize("moment", ["between", "after"])
def test_ctrl_c_while_a_directory_is_replaced_leaves_one_of_the_two(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "old").touch()
    usual, moves = Path.replace, []

    def replace(path: Path, target: Path) -> Path:
        moved = usual(path, target)
        moves.append(path)
        if len(moves) == (1 if moment == "between" else 2):
            raise KeyboardInterrupt
        return moved

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(KeyboardInterrupt), replacing_directory(place) as new:
        (new / "new").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["place"]
    assert [path.name for path in place.iterdir()] == ["old" if moment == "between" else "new"]
