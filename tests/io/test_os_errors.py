"""Errors of the system are one line with the path and the remedy, whichever library writes."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from fewset.core.errors import UserError
from fewset.io.files import replacing, replacing_directory, write_json
from fewset.io.os_errors import as_user_error, refused

LARGE = np.zeros(2**21)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ENOENT, errno.ELOOP])
def test_errors_of_the_system_have_a_path_and_a_remedy(number: int) -> None:
    error = as_user_error(OSError(number, os.strerror(number), "a\nfile"))
    assert str(error).startswith(f"a?file: {os.strerror(number)}; ")
    assert as_user_error(RuntimeError("a defect")) is None
    assert as_user_error(OSError(errno.EINVAL, "a defect")) is None


def test_memory_that_is_not_there_is_no_defect() -> None:
    assert "not enough memory" in str(as_user_error(MemoryError()))
    torch_says = "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."
    assert "Cannot allocate memory" in str(as_user_error(RuntimeError(torch_says)))


def test_the_path_is_the_one_that_was_to_be_written(tmp_path: Path) -> None:
    full = r"out\.json: No space left on device; make room"
    with pytest.raises(UserError, match=full), refused(tmp_path / "out.json"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(UserError, match="as it was"), refused(tmp_path):
        raise UserError("as it was")
    with pytest.raises(RuntimeError, match="defect"), refused(tmp_path):
        raise RuntimeError("a defect")


def test_a_file_in_a_directory_that_is_not_finished_goes_by_its_lasting_name(small_disk: Path) -> None:
    full = rf"{small_disk}/set/large\.json: No space left on device; make room"
    with pytest.raises(UserError, match=full), replacing_directory(small_disk / "set") as directory:
        write_json(directory / "large.json", "x" * LARGE.nbytes)


WRITERS: dict[str, Callable[[Path], object]] = {
    "numpy": lambda path: np.save(path.open("wb"), LARGE),
    "safetensors": lambda path: save_file({"large": LARGE}, path),
    "torch": lambda path: torch.save(torch.from_numpy(LARGE), path),
    "text": lambda path: path.write_text("x" * LARGE.nbytes),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_full_disk_is_one_line_whoever_writes(write: Callable[[Path], object], small_disk: Path) -> None:
    full = r"out: .*[Nn]o space left on device; make room"
    with pytest.raises(UserError, match=full), replacing(small_disk / "out") as temporary:
        write(temporary)
    assert list(small_disk.iterdir()) == []


def test_outputs_on_and_under_a_file_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder" / "full").mkdir(parents=True)
    with pytest.raises(UserError, match="choose"):
        write_json(tmp_path / "file" / "result.json", {})
    with pytest.raises(UserError, match=r"folder: Is a directory"):
        write_json(tmp_path / "folder", {})
    with pytest.raises(UserError, match="choose"), replacing_directory(tmp_path / "file" / "set"):
        pass
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder", "full"]
