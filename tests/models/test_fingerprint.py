"""What makes two networks the same. Every kind of option is tried in tests/training/test_frozen.py."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from fewset.models.backbones import BACKBONES
from fewset.models.fingerprint import fingerprint

IMAGE_BACKBONES = ["conv4", "resnet12"]
MINE = """
import torch
class Mine(torch.nn.Module):
    def forward(self, features): return torch.{}(features)
"""
OTHER_PROCESS = """
import torch
from fewset.models.backbones import BACKBONES
from fewset.models.fingerprint import fingerprint
torch.manual_seed(3)
print(fingerprint(BACKBONES["conv4"](input_size=16)))
"""


@pytest.mark.parametrize("name", IMAGE_BACKBONES)
def test_the_same_weights_in_the_same_network_have_one_fingerprint(name: str) -> None:
    torch.manual_seed(0)
    one, other = (BACKBONES[name](input_size=16) for _ in range(2))
    assert fingerprint(one) != fingerprint(other)
    other.load_state_dict(one.state_dict())
    assert fingerprint(one) == fingerprint(other) == fingerprint(one.eval())
    fast = one.to(memory_format=torch.channels_last)  # another order in memory
    assert fingerprint(fast) == fingerprint(other)
    larger = BACKBONES[name](input_size=17)
    larger.load_state_dict(one.state_dict())
    assert fingerprint(one) != fingerprint(larger)


def test_another_process_finds_the_same() -> None:
    command = [sys.executable, "-c", OTHER_PROCESS]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    torch.manual_seed(3)
    assert found.stdout.strip() == fingerprint(BACKBONES["conv4"](input_size=16))


def test_what_cannot_be_described_is_unlike_all_else() -> None:
    network = nn.Sequential(nn.ReLU())
    assert fingerprint(network) == fingerprint(nn.Sequential(nn.ReLU()))
    network[0].function = lambda features: features
    assert fingerprint(network) != fingerprint(network)


def test_the_code_counts(tmp_path: Path) -> None:
    """A backbone of one's own, with another function between two runs."""
    file, found = tmp_path / "mine.py", []
    for function in ("relu", "tanh"):
        file.write_text(MINE.format(function))
        spec = importlib.util.spec_from_file_location("mine", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["mine"] = module
        spec.loader.exec_module(module)
        found.append(fingerprint(module.Mine()))
    del sys.modules["mine"]
    assert found[0] != found[1]
