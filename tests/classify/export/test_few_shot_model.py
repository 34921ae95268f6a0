"""One dynamic file gives what torch gives, for any number of ways, shots and queries."""

from itertools import product

import numpy as np
import pytest
import torch

from fewset.classify.export.few_shot_model import TaskGraphs
from fewset.models.adapters import ADAPTERS
from fewset.models.backbones.conv4 import Conv4
from fewset.models.backbones.features import FeatureInput
from fewset.models.heads import HEADS
from fewset.models.maml import MamlConfig, MamlModel
from fewset.models.model import FewShotModel
from fewset.runtime.errors import UserError
from tests.helpers.onnx_files import run

pytestmark = pytest.mark.slow
SIDE, DIM = 16, 22
TASKS = [*product((2, 5, 100), (1, 5), (7,)), (5, 3, 1)]


def tried(model: FewShotModel) -> FewShotModel:
    """Ready for use, with statistics of BatchNorm that are not those of the start."""
    generator = torch.Generator().manual_seed(1)
    for name, value in model.named_buffers():
        if name.endswith("running_mean"):
            value.normal_(std=0.1, generator=generator)
    return model.eval()


def close(logits: np.ndarray, expected: torch.Tensor) -> None:
    difference = torch.from_numpy(logits).softmax(dim=-1) - expected.softmax(dim=-1)
    assert logits.shape == tuple(expected.shape)
    assert difference.abs().max() < 1e-5


@pytest.mark.parametrize("adapter", ["identity", "attention"])
def test_one_file_takes_the_pixels_of_any_task(adapter: str) -> None:
    torch.manual_seed(0)
    model = FewShotModel(
        Conv4(input_size=SIDE), ADAPTERS[adapter](64), HEADS["prototype"](64), test_time_flip=True
    )
    file = TaskGraphs(tried(model)).joined().SerializeToString()
    generator = np.random.default_rng(0)
    for way, shot, queries in TASKS:
        support = generator.integers(256, size=(way, shot, SIDE, SIDE, 3), dtype=np.uint8)
        query = generator.integers(256, size=(queries, SIDE, SIDE, 3), dtype=np.uint8)
        (logits,) = run(file, support=support, query=query)
        with torch.no_grad():
            shots, rows = (
                model.embed(torch.from_numpy(images.reshape(-1, SIDE, SIDE, 3)).permute(0, 3, 1, 2))
                for images in (support, query)
            )
            close(logits, model(shots.view(1, way, shot, 64), rows.unsqueeze(0))[0])
    assert b"fewset" not in file, "the file names files of this machine"


@pytest.mark.parametrize(
    ("adapter", "head", "average", "transductive"),
    [
        ("deepsets", "prototype", "pre", False),
        ("bilstm", "semi_prototype", "post", False),
        ("gcn", "matching", "post", False),
        ("attention", "simple_shot", "post", True),
    ],
)
def test_all_adapters_and_the_heads_of_the_paper_are_exported(
    adapter: str, head: str, average: str, transductive: bool
) -> None:
    torch.manual_seed(0)
    options = {"transform": "cl2n"} if head == "simple_shot" else {}
    built = HEADS[head](DIM, **options)
    if options:
        built.fit(torch.randn(11, DIM))
    backbone = FeatureInput(DIM, "l2n")
    model = FewShotModel(backbone, ADAPTERS[adapter](DIM), built, average, transductive).eval()
    graphs = TaskGraphs(model)
    assert not graphs.takes_pixels
    file = graphs.joined().SerializeToString()
    generator = torch.Generator().manual_seed(1)
    for way, shot, queries in TASKS:
        support = torch.randn(way, shot, DIM, generator=generator)
        query = torch.randn(queries, DIM, generator=generator)
        (logits,) = run(file, support=support.numpy(), query=query.numpy())
        with torch.no_grad():
            close(logits, model(backbone(support).unsqueeze(0), backbone(query).unsqueeze(0))[0])


def test_a_head_that_solves_equations_is_refused() -> None:
    """ONNX has no factorisation of matrices."""
    model = FewShotModel(FeatureInput(DIM), ADAPTERS["identity"](DIM), HEADS["ridge"](DIM), "post").eval()
    with pytest.raises(
        UserError, match=r"torch cannot write the model as ONNX: .*; take another one"
    ) as refused:
        TaskGraphs(model).joined()
    assert "\n" not in str(refused.value)


def test_maml_is_refused() -> None:
    model = MamlModel(Conv4(input_size=SIDE), MamlConfig())
    with pytest.raises(UserError, match="the export as ONNX works on embeddings, and MamlModel has none"):
        TaskGraphs(model)
