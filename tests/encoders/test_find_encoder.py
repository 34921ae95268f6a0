"""Encoders by name, custom ones among them."""

import subprocess
import sys

import numpy as np
import pytest

import fewset
from fewset.core.errors import UserError
from fewset.encoders import ENCODERS, Encoder, find_encoder, is_encoder
from tests.helpers.encoders import photograph
from tests.helpers.guides import example


def test_auto_is_the_one_that_comes_with_the_package() -> None:
    assert find_encoder().id == find_encoder("auto").id == "efficientnet-lite0"


def test_the_encoder_of_the_guide() -> None:
    exec(example("docs/encoders.md", "register_encoder"), {})
    encoder = find_encoder("brightness", "cpu")
    assert isinstance(encoder, Encoder)
    assert encoder.device == "cpu"
    image = photograph()
    np.testing.assert_allclose(encoder([image]), [[np.asarray(image.convert("L")).mean()]], rtol=1e-5)


def test_a_family_gets_the_name_after_the_colon() -> None:
    fewset.register_encoder("lite:")(
        lambda number, device: find_encoder(f"efficientnet-lite{number}", str(device))
    )
    assert find_encoder("lite:1", "cpu").id == "efficientnet-lite1"
    assert is_encoder("lite:3")
    assert not is_encoder("lite")


def test_other_names_are_rejected() -> None:
    with pytest.raises(UserError, match="Did you mean 'efficientnet-lite"):
        find_encoder("efficientnet-lite9")
    with pytest.raises(UserError, match="unknown encoder 'hub:'"):
        find_encoder("hub:model")
    with pytest.raises(UserError, match="'hf:' needs a name"):
        find_encoder("hf:")
    with pytest.raises(UserError, match="--device is 'tpu'"):
        find_encoder("auto", "tpu")


def test_libraries_of_extras_are_imported_only_when_used() -> None:
    program = (
        "import sys\n"
        "from fewset.encoders import ENCODERS\n"
        f"assert list(ENCODERS) == {list(ENCODERS)}\n"
        "heavy = {'transformers', 'onnxruntime', 'onnx', 'PIL'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
