"""What every encoder must do; a new one is tested here without being named."""

from collections.abc import Sequence

import numpy as np
import pytest
from PIL import Image

from fewset.encoders import ENCODERS, Encoder
from fewset.experiments.run_encoder import load_encoder
from tests.helpers.encoders import photograph, write_huggingface, write_onnx

RUN = "miniimagenet-conv4-pretrain"  # a run of fewset, as a user names it
FAMILIES = {"hf:": write_huggingface, "onnx:": write_onnx}


@pytest.fixture(scope="module", params=[*ENCODERS, RUN])
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    name = request.param
    if not name.endswith(":"):
        return load_encoder(name)
    if name not in FAMILIES:
        pytest.skip(f"a family {name} of a plugin: test it with a model of its own")
    return load_encoder(f"{name}{FAMILIES[name](tmp_path_factory.mktemp('encoder') / 'model')}")


@pytest.fixture(scope="module")
def rows(encoder: Encoder) -> np.ndarray:
    return encoder([photograph(seed) for seed in range(3)])


def test_images_become_rows_of_dimension_dim(encoder: Encoder, rows: np.ndarray) -> None:
    assert rows.shape == (3, encoder.dim)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    assert len(np.unique(rows, axis=0)) == 3
    assert encoder([]).shape == (0, encoder.dim)
    assert encoder.input_size > 0
    assert encoder.device == "cpu"


def test_it_is_found_again_under_its_id(encoder: Encoder) -> None:
    again = load_encoder(encoder.id, "cpu")
    assert again.id == encoder.id
    assert again.digest == encoder.digest
    assert len(bytes.fromhex(again.digest)) == 32
    np.testing.assert_array_equal(again([photograph(0)]), encoder([photograph(0)]))


def test_twice_the_same_and_in_order(encoder: Encoder, rows: np.ndarray) -> None:
    np.testing.assert_array_equal(encoder([photograph(seed) for seed in range(3)]), rows)
    one_by_one = [encoder([photograph(seed)])[0] for seed in range(3)]
    assert_close(rows, np.stack(one_by_one))


def test_no_image_influences_another(encoder: Encoder, rows: np.ndarray) -> None:
    changed = encoder([photograph(0), photograph(9), photograph(2)])
    np.testing.assert_array_equal(changed[[0, 2]], rows[[0, 2]])
    assert not np.allclose(changed[1], rows[1], rtol=1e-3, atol=1e-3)


class Reader(Sequence[Image.Image]):
    """Reads an image when it is asked for, and remembers which."""

    def __init__(self, count: int) -> None:
        self.count, self.read = count, list[int]()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Image.Image:  # type: ignore[override]
        if index >= self.count:
            raise IndexError(index)
        self.read.append(index)
        return photograph(index % 3, 11, 13)


def test_images_are_read_one_after_the_other_once(encoder: Encoder) -> None:
    reader = Reader(23)  # more than a batch of the larger ones
    embedded = encoder(reader)
    assert reader.read == list(range(23))
    assert_close(embedded, np.resize(embedded[:3], embedded.shape))


@pytest.mark.parametrize("size", [(1, 1), (3000, 20), (20, 3000), (1, 100_000), (2, 3)])
def test_any_size(encoder: Encoder, size: tuple[int, int]) -> None:
    assert np.isfinite(encoder([photograph(0, *size)])).all()


def test_any_mode(encoder: Encoder) -> None:
    """The same grey photograph, whatever holds it."""
    grey = photograph(0).convert("L")
    wide = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    same = [grey, *(grey.convert(mode) for mode in ("RGB", "RGBA", "LA", "P", "RGBX")), wide]
    embedded = encoder(same)
    assert_close(embedded, np.resize(embedded[0], embedded.shape))


def test_what_is_transparent_is_white(encoder: Encoder) -> None:
    clear = photograph(0).convert("RGBA")
    clear.putalpha(0)
    palette = Image.new("P", (11, 13), 0)
    palette.putpalette([0, 0, 0, 255, 0, 0])
    palette.info["transparency"] = 0
    white = [Image.new(mode, (11, 13), "white") for mode in ("RGB", "L", "1")]
    embedded = encoder([*white, clear, palette])
    assert_close(embedded, np.resize(embedded[0], embedded.shape))


def test_images_stay_as_they_are(encoder: Encoder) -> None:
    image = photograph(0).convert("RGBA")
    before = np.array(image)
    encoder([image])
    np.testing.assert_array_equal(np.asarray(image), before)
    assert image.mode == "RGBA"


def assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
