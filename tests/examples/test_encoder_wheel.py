"""A wheel with an encoder, as somebody with a model makes and installs it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fewset.encoders import find_encoder
from tests.helpers.encoders import photograph, write_huggingface
from tests.helpers.guides import ROOT

ROWS = """
import sys, numpy
from fewset.encoders import find_encoder
from tests.helpers.encoders import photograph
encoder = find_encoder("tiny-vit")
assert encoder.id == "tiny-vit"
numpy.save(sys.argv[1], encoder([photograph(0, 40, 30)]))
"""


def run(*words: str | Path, **environment: str) -> str:
    process = subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.slow
def test_an_encoder_comes_with_a_wheel(tmp_path: Path) -> None:
    model = write_huggingface(tmp_path / "tiny-vit")
    (model / "LICENSE").write_text("free")
    wheel = run(ROOT / "examples/encoder_wheel.py", model, "--out", tmp_path / "dist").strip()
    assert Path(wheel).name == "fewset_encoder_tiny_vit-1.0-py3-none-any.whl"
    site = tmp_path / "site"
    run("-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel)
    assert (site / "fewset_encoder_tiny_vit-1.0.dist-info/licenses/LICENSE").read_text() == "free"
    run("-c", ROWS, tmp_path / "rows.npy", PYTHONPATH=f"{ROOT}{os.pathsep}{site}")
    expected = find_encoder(f"hf:{model}")([photograph(0, 40, 30)])
    np.testing.assert_allclose(np.load(tmp_path / "rows.npy"), expected, atol=0.01)


def test_a_directory_without_a_model_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples/encoder_wheel.py"), str(tmp_path)]
    process = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert process.returncode != 0
    assert process.stderr.splitlines() == [
        f"error: {tmp_path} has no *.safetensors; download a model with `hf download`"
    ]
