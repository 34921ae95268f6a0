"""One dynamic file gives what torch gives, for any number of ways, shots and queries."""

from itertools import product
from time import monotonic

import numpy as np
import pytest
import torch

from fewset.classify.export.models import TaskGraphs
from fewset.core.errors import UserError
from fewset.models.adapters import ADAPTERS
from fewset.models.backbones.conv4 import Conv4
from fewset.models.backbones.features import FeatureInput
from fewset.models.heads import HEADS
from fewset.models.layers.transform import FeatureTransform
from fewset.models.maml import MamlConfig, MamlModel
from fewset.models.method_info import method_info
from fewset.models.model import FewShotModel
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


ADAPTED = {"pfa": "deepsets", "semi_prototype": "bilstm", "matching": "gcn", "prototype": "attention"}
"""With which adapter a head is tried, so that all of these are."""


@pytest.mark.parametrize("head", HEADS)
def test_every_head_is_exported_or_refused_at_once(head: str) -> None:
    """A new head too: one whose graph is wrong says in its `about` why there is none."""
    torch.manual_seed(0)
    transductive = head == "prototype"
    built = HEADS[head](DIM)
    about, backbone, adapter = (
        method_info(built),
        Conv4(dim=DIM) if method_info(built).takes == "maps" else FeatureInput(DIM),
        ADAPTERS[ADAPTED.get(head, "identity")],
    )
    average = "post" if about.every_shot else "pre"
    steps = FeatureTransform(DIM, ("l2",))
    model = FewShotModel(backbone, adapter(DIM), built, average, transductive, feature_transform=steps).eval()
    if about.no_onnx or about.takes == "maps":
        began = monotonic()
        why = r"cannot be exported: .*; export a classifier|ONNX works on embeddings, .* takes maps"
        with pytest.raises(UserError, match=why) as refused:
            TaskGraphs(model)
        assert monotonic() - began < 1
        assert "\n" not in str(refused.value)
        return
    graphs = TaskGraphs(model)
    assert not graphs.takes_pixels
    file = graphs.joined().SerializeToString()
    generator = torch.Generator().manual_seed(1)
    for way, shot, queries in TASKS:
        support = torch.randn(way, shot, DIM, generator=generator)
        query = torch.randn(queries, DIM, generator=generator)
        (logits,) = run(file, support=support.numpy(), query=query.numpy())
        with torch.no_grad():
            close(logits, model(steps(support).unsqueeze(0), steps(query).unsqueeze(0))[0])


def test_maml_is_refused() -> None:
    model = MamlModel(Conv4(input_size=SIDE), MamlConfig())
    with pytest.raises(UserError, match="the export as ONNX works on embeddings, and MamlModel has none"):
        TaskGraphs(model)
