"""Files of `torch.save` before PyTorch 1.6, read without torch."""

import pickle
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch

from fewset.io.saved_arrays import read_saved_arrays


def test_as_torch_reads_them(tmp_path: Path) -> None:
    base = torch.arange(30, dtype=torch.float32).view(5, 6)
    state = OrderedDict(
        whole=base, turned=base.T, part=base[1:4, ::2], number=torch.tensor(7), empty=torch.zeros(0, 3)
    )
    torch.save(state, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    found = read_saved_arrays(tmp_path / "old.pth")
    assert list(found) == list(state)
    for name, values in state.items():
        assert found[name].dtype == values.numpy().dtype
        np.testing.assert_array_equal(found[name], values.numpy())


def test_no_code_in_a_file_is_run(tmp_path: Path) -> None:
    with (tmp_path / "old.pth").open("wb") as file:
        for content in (1, 2, 3, Path.cwd):
            pickle.dump(content, file)
    with pytest.raises(KeyError):
        read_saved_arrays(tmp_path / "old.pth")
