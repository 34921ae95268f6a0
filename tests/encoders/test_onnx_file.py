"""ONNX files: images prepared as FILE.json says, and the output that is the embedding."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from fewset.core.errors import UserError
from fewset.encoders import find_encoder
from fewset.encoders.onnx_file import parts_of
from fewset.io.files import write_json
from tests.helpers.encoders import onnx_weight, photograph, write_onnx

MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def mean_colour(pixels: np.ndarray) -> np.ndarray:
    return ((pixels / 255 - MEAN) / STD).mean(axis=(0, 1))


@pytest.mark.parametrize("batch", ["B", 1, 2])
def test_rows_are_those_of_the_network(batch: int | str, tmp_path: Path) -> None:
    """A file may fix the size of its batches: five images then go through in parts."""
    encoder = find_encoder(f"onnx:{write_onnx(tmp_path / 'model.onnx', batch=batch)}")
    photographs = [photograph(seed, 19, 19) for seed in range(5)]
    expected = [mean_colour(np.asarray(image)) @ onnx_weight() for image in photographs]
    np.testing.assert_allclose(encoder(photographs), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("outputs", "dim"), [(("maps", "rows"), 5), (("tokens", "rows", "maps"), 5), (("tokens", "maps"), 3)]
)
def test_the_output_that_is_the_embedding(outputs: tuple[str, ...], dim: int, tmp_path: Path) -> None:
    encoder = find_encoder(f"onnx:{write_onnx(tmp_path / 'model.onnx', outputs)}")
    image = photograph(0, 19, 19)
    colour = mean_colour(np.asarray(image))
    expected = colour if dim == 3 else colour @ onnx_weight()
    assert encoder.dim == dim
    np.testing.assert_allclose(encoder([image])[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"size": 19}, lambda image: image.resize((34, 19), 3).crop((7, 0, 26, 19))),
        ({"size": 19, "resample": "bilinear"}, lambda image: image.resize((34, 19), 2).crop((7, 0, 26, 19))),
        ({"size": 19, "resize": 23}, lambda image: image.resize((42, 23), 3).crop((11, 2, 30, 21))),
        ({"size": 19, "stretch": True}, lambda image: image.resize((19, 19), 3)),
        (
            {"size": 19, "stretch": True, "resize": 29, "resample": "box"},
            lambda image: image.resize((29, 29), 4).crop((5, 5, 24, 24)),
        ),
    ],
)
def test_images_are_prepared_as_the_settings_say(
    settings: dict[str, Any], expected: Any, tmp_path: Path
) -> None:
    path = write_onnx(tmp_path / "model.onnx", ("maps",), settings=settings)
    image = photograph(0, 97, 53)
    row = find_encoder(f"onnx:{path}")([image])[0]
    np.testing.assert_allclose(row, mean_colour(np.asarray(expected(image))), rtol=1e-4, atol=1e-5)


def test_the_digest_is_of_weights_and_preprocessing(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "model.onnx")
    digests = [find_encoder(f"onnx:{path}").digest]
    write_json(path.with_name("model.onnx.json"), {"size": 19, "resample": "box"})
    digests.append(find_encoder(f"onnx:{path}").digest)
    data = path.with_name("model.onnx.data")
    outside = {"save_as_external_data": True, "location": data.name, "size_threshold": 80}
    onnx.save_model(onnx.load(path), path, **outside)
    digests.append(find_encoder(f"onnx:{path}").digest)
    data.write_bytes(bytes(len(data.read_bytes())))
    digests.append(find_encoder(f"onnx:{path}").digest)
    assert len(set(digests)) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sizes": 19}, "unknown .* key 'sizes'. Did you mean 'size'"),
        ({"size": 19, "std": [0.5, 0, 0.5]}, "above 0"),
        ({"size": 19, "resize": 18}, "the crop is 19 x 19 pixels, but images are resized to 18"),
        ({"size": 23}, "does not embed an image of 23 x 23 pixels"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "model.onnx", settings=settings)
    with pytest.raises(UserError, match=message) as caught:
        find_encoder(f"onnx:{path}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outputs": ("tokens",)}, r"outputs of shape \(2, 361, 3\); expected one of shape"),
        ({"element": onnx.TensorProto.DOUBLE}, "expected one input: float32 images"),
    ],
)
def test_networks_with_other_inputs_or_outputs(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "model.onnx", **options)
    with pytest.raises(UserError, match=message):
        find_encoder(f"onnx:{path}")


def write_graph(path: Path, nodes: list[onnx.NodeProto], *constants: onnx.TensorProto) -> Path:
    """A file whose nodes turn the images "x" into "y", and the settings of its images beside it."""
    image, pooled = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["B", 3, *sides])
        for name, sides in (("x", (8, 8)), ("z", (1, 1)))
    )
    pool = onnx.helper.make_node("GlobalAveragePool", ["y"], ["z"])
    graph = onnx.helper.make_graph([*nodes, pool], "graph", [image], [pooled], constants)
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    path.with_name(f"{path.name}.json").write_text('{"size": 8}')
    return path


def test_features_that_depend_on_other_images_are_rejected(tmp_path: Path) -> None:
    mean = onnx.helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1)
    centred = onnx.helper.make_node("Sub", ["x", "mean"], ["y"])
    file = write_graph(tmp_path / "centred.onnx", [mean, centred])
    with pytest.raises(UserError, match=r"gives an image other features each time or beside other images"):
        find_encoder(f"onnx:{file}")


@pytest.mark.parametrize("name", ["weights.bin", "net.onnx.data", "w" * 200])
def test_weights_in_another_file_belong_to_the_digest(name: str, tmp_path: Path) -> None:
    weight = onnx.numpy_helper.from_array(np.ones((1, 3, 8, 8), dtype=np.float32), "weight")
    onnx.external_data_helper.set_external_data(weight, name, 0, 4 * 3 * 64)
    weight.ClearField("raw_data")
    weights = tmp_path / name
    np.ones(3 * 64, dtype=np.float32).tofile(weights)
    add = onnx.helper.make_node("Add", ["x", "weight"], ["y"])
    file = write_graph(tmp_path / "net.onnx", [add], weight)
    before = find_encoder(f"onnx:{file}").digest
    assert parts_of(file) == [file, weights]
    np.zeros(3 * 64, dtype=np.float32).tofile(weights)
    assert find_encoder(f"onnx:{file}").digest != before


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    pipe, empty = tmp_path / "pipe", tmp_path / "empty"
    os.mkfifo(pipe)
    empty.touch()
    for path in (pipe, empty, tmp_path / "absent", tmp_path):
        assert parts_of(path) == [path]


def test_what_onnxruntime_logs_is_not_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sides = onnx.numpy_helper.from_array(np.array([1, 1, 10_000, 10_000]), "sides")
    tile = onnx.helper.make_node("Tile", ["x", "sides"], ["y"])
    with pytest.raises(UserError, match="does not embed an image of 8 x 8 pixels"):
        find_encoder(f"onnx:{write_graph(tmp_path / 'huge.onnx', [tile], sides)}")
    assert capfd.readouterr() == ("", "")


def test_what_is_missing_or_damaged_is_said_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(UserError, match="there is no file"):
        find_encoder(f"onnx:{path}")
    path.write_bytes(b"not ONNX")
    with pytest.raises(UserError, match=r"there is no .*model.onnx.json.*write for example \{"):
        find_encoder(f"onnx:{path}")
    settings = path.with_name("model.onnx.json")
    settings.write_text("[1]")
    with pytest.raises(UserError, match=r"model.onnx.json cannot be read.*; write it again"):
        find_encoder(f"onnx:{path}")
    settings.write_text("{}")
    with pytest.raises(UserError, match=r"model.onnx cannot be read.*; write it again") as caught:
        find_encoder(f"onnx:{path}")
    assert "\n" not in str(caught.value)


def test_onnxruntime_reports_nothing_to_its_makers(tmp_path: Path) -> None:
    """By default it stores an id of the machine in the user's cache, and sends it."""
    file = write_onnx(tmp_path / "model.onnx")
    program = f"from fewset.encoders import find_encoder\nfind_encoder('onnx:{file}')"
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment |= {"HOME": str(tmp_path / "user"), "XDG_CACHE_HOME": str(tmp_path / "user")}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert not list((tmp_path / "user").rglob("*onnxruntime*"))
