"""Peak memory, measured in a process of its own."""

import subprocess
import sys

import pytest

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
