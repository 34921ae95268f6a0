"""Encoders by name, one's own among them."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import fewset
from fewset.models.encoders import ENCODERS, find_encoder, is_encoder
from fewset.runtime.errors import UserError
from tests.helpers.encoders import photograph


def test_auto_is_the_one_that_comes_with_the_package() -> None:
    assert find_encoder().id == find_encoder("auto").id == "efficientnet-lite0"


class Brightness:
    """The contract, met by hand."""

    dim, input_size = 2, 1

    def __init__(self, device: torch.device, name: str = "brightness", power: str = "1") -> None:
        self.device, self.id, self.digest, self.power = device, name, power.zfill(64), float(power)

    def __call__(self, images: list) -> np.ndarray:
        means = [np.asarray(image.convert("L")).mean() ** self.power for image in images]
        return np.array([[mean, -mean] for mean in means], dtype=np.float32)


def test_an_encoder_and_a_family_of_ones_own() -> None:
    fewset.register_encoder("brightness")(Brightness)
    fewset.register_encoder("power:")(lambda power, device: Brightness(device, f"power:{power}", power))
    one, two = find_encoder("brightness", "cpu"), find_encoder("power:2", "cpu")
    assert one.device == torch.device("cpu")
    assert two.id == "power:2"
    np.testing.assert_allclose(two([photograph()]), one([photograph()]) * abs(one([photograph()])), rtol=1e-5)
    assert is_encoder("power:3")
    assert not is_encoder("power")


def test_other_names_are_refused() -> None:
    with pytest.raises(UserError, match="Did you mean 'efficientnet-lite"):
        find_encoder("efficientnet-lite9")
    with pytest.raises(UserError, match="unknown encoder 'hub:'"):
        find_encoder("hub:model")
    with pytest.raises(UserError, match="'hf:' lacks what comes after the colon"):
        find_encoder("hf:")
    with pytest.raises(UserError, match="--device is 'tpu'"):
        find_encoder("auto", "tpu")


def test_libraries_of_extras_are_imported_only_when_used() -> None:
    program = (
        "import sys\n"
        "from fewset.models.encoders import ENCODERS\n"
        f"assert list(ENCODERS) == {list(ENCODERS)}\n"
        "heavy = {'transformers', 'onnxruntime', 'onnx', 'PIL'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
