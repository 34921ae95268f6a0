"""Runs and released models as encoders."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from fewset.core.errors import UserError
from fewset.data.images.decoding import decode, encode
from fewset.experiments.run_encoder import load_encoder
from fewset.experiments.weights import load, released_models
from tests.helpers.encoders import photograph

NAME = "miniimagenet-conv4-feat-1shot"


def test_rows_are_those_of_an_imported_image() -> None:
    """A photograph and its import into a set give the same embedding."""
    image = photograph(0, 131, 97)
    stored = decode(encode(np.asarray(image), "PNG"), 84).pixels
    with torch.inference_mode():
        expected = load(NAME).embed(torch.from_numpy(stored.copy()).permute(2, 0, 1)[None])
    encoder = load_encoder(NAME)
    assert (encoder.id, encoder.dim, encoder.input_size) == (NAME, 64, 84)
    actual = encoder([image])
    # The crop is taken before or after resizing, which differs by less than a level.
    assert np.abs(actual - expected.numpy()).max() < 0.02 * np.abs(actual).max()


def test_a_run_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    shutil.copytree(released_models()[NAME], run)
    monkeypatch.chdir(tmp_path)
    encoder = load_encoder("run")
    assert encoder.id == "./run"
    assert encoder.digest == load_encoder(NAME).digest
    assert encoder.digest != load_encoder("miniimagenet-conv4-feat-5shot").digest
    np.testing.assert_array_equal(encoder([photograph()]), load_encoder(NAME)([photograph()]))


def test_other_names_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Did you mean 'miniimagenet-conv4-feat-1shot'"):
        load_encoder("miniimagenet-conv4-feat-1-shot")
    with pytest.raises(UserError, match=r"has no model.safetensors"):
        load_encoder(str(tmp_path))
