"""Peak memory, measured in a process of its own."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fewset.evaluation.embedding import embed_images
from fewset.models.adapters.identity import Identity
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.model import FewShotModel

PROGRAM = """
import sys
import numpy as np, torch
from fewset.models.adapters import ADAPTERS
from fewset.evaluation.scoring import evaluate
from fewset.models.heads.prototype import PrototypeHead
from fewset.compute.machine import peak_memory
from fewset.models.model import FewShotModel
from fewset.tasks.spec import TaskSpec

torch.set_num_threads(1)
generator = np.random.default_rng(0)
labels = np.repeat(np.arange(23), 600)
features = torch.from_numpy(generator.normal(size=(len(labels), 640)).astype(np.float32))
model = FewShotModel(torch.nn.Identity(), ADAPTERS[sys.argv[1]](640), PrototypeHead(640))
evaluate(model, features, labels, TaskSpec(way=20, shot=5, query=15, tasks=int(sys.argv[2])))
print(peak_memory())
"""


def peak(adapter: str, tasks: int) -> int:
    command = [sys.executable, "-c", PROGRAM, adapter, str(tasks)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
def test_ten_thousand_large_tasks_stay_under_two_gigabytes() -> None:
    """20 ways, 5 shots, 640-d. Half of the 2 GB that the product allows itself, as a margin."""
    assert peak("attention", 10_000) < 2**30


class MeanColour(nn.Module):
    dim, mean, std = 3, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)

    def __init__(self, size: int) -> None:
        super().__init__()
        self.input_size, self.scale = size, nn.Parameter(torch.ones(1))

    def forward(self, images: Tensor) -> Tensor:
        return self.scale * images.mean((2, 3))


class Watched(np.ndarray):
    """Images that note how many of them are taken at once."""

    most = 0

    def __getitem__(self, rows):  # type: ignore[no-untyped-def]
        if isinstance(rows, np.ndarray):
            Watched.most = max(Watched.most, len(rows))
        return super().__getitem__(rows).view(np.ndarray)


@pytest.mark.parametrize(("size", "most"), [(16, 2048), (84, 74)])
def test_a_split_is_never_in_memory_as_a_whole(size: int, most: int) -> None:
    Watched.most = 0
    images = np.zeros((2, size, size, 3), dtype=np.uint8).view(Watched)
    model = FewShotModel(MeanColour(size), Identity(3), PrototypeHead(3))
    embed_images(model, images, np.zeros(most + 7, dtype=np.int64))
    assert Watched.most == most
