"""EfficientNet-Lite by onnxruntime: the same rows as by torch, under the same digest."""

import copy
import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from fewset.core.errors import UserError
from fewset.encoders import find_encoder
from fewset.encoders.efficientnet_lite import OnnxNetwork, load_efficientnet_lite
from fewset.encoders.network import NetworkEncoder
from fewset.encoders.torch_networks.efficientnet_lite import EfficientNetLite
from tests.helpers.encoders import photograph

CPU = "cpu"
NAME = "efficientnet-lite0"


@pytest.fixture(scope="module")
def by_torch() -> NetworkEncoder:
    return load_efficientnet_lite(NAME, CPU, "torch")


@pytest.fixture(scope="module")
def by_onnxruntime() -> NetworkEncoder:
    return load_efficientnet_lite(NAME, CPU, "onnxruntime")


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, size=shape).astype(np.float32)


def test_rows_and_digest_are_those_of_torch(by_torch: NetworkEncoder, by_onnxruntime: NetworkEncoder) -> None:
    photographs = [photograph(seed, 301, 97) for seed in range(3)]
    expected = by_torch(photographs)
    np.testing.assert_allclose(by_onnxruntime(photographs), expected, rtol=1e-5, atol=1e-5)
    assert np.abs(expected).max() > 1
    assert by_onnxruntime.digest == by_torch.digest
    assert by_onnxruntime.id == by_torch.id


@pytest.mark.parametrize("count", [0, 1, 4, 5, 23])
def test_any_number_of_threads_gives_the_same_rows(count: int, by_onnxruntime: NetworkEncoder) -> None:
    images = [photograph(seed, 41, 37) for seed in range(count)]
    small = replace(
        by_onnxruntime,
        preprocessing=replace(by_onnxruntime.preprocessing, height=32, width=32, resize=(32, 32)),
    )
    one, three = (replace(small, threads=threads)(images) for threads in (1, 3))
    assert one.shape == (count, small.dim)
    np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("name", ["efficientnet-lite1", "efficientnet-lite2"])
def test_the_larger_ones(name: str) -> None:
    encoders = [load_efficientnet_lite(name, CPU, engine) for engine in ("torch", "onnxruntime")]
    side = encoders[0].input_size
    images = noise(1, 3, side, side)
    expected, actual = encoders[0].network(torch.from_numpy(images)), encoders[1].network(images)
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-5, atol=1e-5)


def test_a_row_does_not_depend_on_its_batch(by_onnxruntime: NetworkEncoder) -> None:
    """To the bit: so that processes that share photos out give what one of them gives."""
    images = noise(11, 3, 224, 224)
    rows = by_onnxruntime.network(images)
    for first, last in ((0, 1), (3, 5), (4, 11)):
        np.testing.assert_array_equal(by_onnxruntime.network(images[first:last]), rows[first:last])


def test_copies_and_other_processes_compute_the_same(by_onnxruntime: NetworkEncoder) -> None:
    """`clone` of scikit-learn copies an encoder, and joblib sends it to other processes."""
    network, images = by_onnxruntime.network, noise(1, 3, 32, 32)
    for again in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):  # noqa: S301 - our own
        assert again is not network
        np.testing.assert_array_equal(again(images), network(images))


def test_it_is_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(find_encoder(NAME, "cpu").network, OnnxNetwork)
    for missing in ("onnx", "onnxruntime"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, missing, None)
            assert isinstance(find_encoder(NAME, "cpu").network, EfficientNetLite)
            with pytest.raises(UserError, match=r"pip install 'fewset\[onnx\]'"):
                load_efficientnet_lite(NAME, CPU, "onnxruntime")
