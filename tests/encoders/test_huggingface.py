"""Models of transformers: the same rows as that library's own processor and model give."""

import json
import os
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from fewset.core.errors import UserError
from fewset.encoders import find_encoder
from fewset.encoders.huggingface import read_preprocessing
from fewset.encoders.preprocessing import Preprocessing
from fewset.io.files import write_json
from tests.helpers.encoders import HUGGINGFACE, photograph, write_huggingface

HALF = (0.5, 0.5, 0.5)
SETTINGS = "preprocessor_config.json"


@pytest.mark.parametrize("size", [(97, 53), (53, 97), (30, 30), (11, 13), (211, 29)])
@pytest.mark.parametrize("kind", HUGGINGFACE)
def test_rows_are_those_of_the_library(kind: str, size: tuple[int, int], tmp_path: Path) -> None:
    path = write_huggingface(tmp_path / kind, kind)
    photographs = [photograph(seed, *size) for seed in range(3)]
    _, processor, options = HUGGINGFACE[kind]
    pixels = processor(**options)(photographs, return_tensors="pt")["pixel_values"]
    model = transformers.AutoModel.from_pretrained(path).eval()
    with torch.inference_mode():
        if kind == "clip":
            expected = model.get_image_features(pixel_values=pixels).pooler_output
        else:
            expected = model(pixel_values=pixels).pooler_output.reshape(3, -1)
    rows = find_encoder(f"hf:{path}")(photographs)
    assert rows.shape == (3, 17 if kind == "clip" else 23 if kind in ("convnext", "resnet") else 24)
    np.testing.assert_allclose(rows, expected.numpy(), rtol=1e-3, atol=1e-4)


def square(size: int, resize: int | tuple[int, int], resample: int = 2, **options: Any) -> Preprocessing:
    return Preprocessing(size, size, resize, **{"mean": HALF, "std": HALF, "resample": resample, **options})


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"size": 224}, square(224, (224, 224))),  # the first files of ViT
        (
            {"size": {"height": 224, "width": 192}, "resample": 3},
            Preprocessing(224, 192, (224, 192), HALF, HALF),
        ),
        (
            {"size": 224, "crop_size": 192, "do_center_crop": True, "resample": 3},
            square(192, 224, 3),
        ),  # of CLIP
        ({"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}}, square(224, 256)),
        ({"size": {"shortest_edge": 224}, "crop_size": 192, "do_center_crop": False}, square(224, 224)),
        (  # DeiT
            {"size": {"height": 256, "width": 256}, "crop_size": {"height": 224, "width": 224}},
            square(224, (256, 256)),
        ),
        (  # ResNet
            {"size": 224, "crop_pct": 0.875, "feature_extractor_type": "ConvNextFeatureExtractor"},
            square(224, 256),
        ),
        (
            {
                "size": {"shortest_edge": 224},
                "crop_pct": None,
                "image_processor_type": "ConvNextImageProcessor",
            },
            square(224, 256),
        ),
        ({"size": {"shortest_edge": 384}, "crop_pct": 0.95}, square(384, (384, 384))),
        ({"size": 7, "do_normalize": False}, square(7, (7, 7), mean=(0.0,) * 3, std=(1.0,) * 3)),
        ({"size": 7, "do_rescale": False}, square(7, (7, 7), scale=1.0)),
        ({"size": 7, "rescale_factor": 0.01}, square(7, (7, 7), scale=0.01)),
    ],
)
def test_settings_of_many_ages(settings: dict[str, Any], expected: Preprocessing, tmp_path: Path) -> None:
    settings = {"image_mean": HALF, "image_std": HALF, **settings}
    write_json(tmp_path / SETTINGS, settings)
    assert read_preprocessing(tmp_path) == expected
    (tmp_path / SETTINGS).unlink()
    write_json(tmp_path / "processor_config.json", {"image_processor": settings, "tokenizer": {}})
    assert read_preprocessing(tmp_path) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"do_flip_channel_order": True}, "asks for do_flip_channel_order, which fewset does not do"),
        ({"do_pad": True, "rescale_offset": True}, "asks for do_pad, rescale_offset"),
        ({"do_resize": False}, "do_resize = false"),
        ({"size": {"longest_edge": 7}}, "cannot be read .*height"),
        ({"size": "large"}, "cannot be read"),
        ({"image_mean": None}, "cannot be read"),
        ({"image_mean": [0.5]}, "cannot be read"),
        ({"resample": 9}, "the resampling filter is 9"),
        ({"size": 7, "crop_size": 8, "do_center_crop": True}, "the crop is 8 x 8 pixels"),
    ],
)
def test_settings_that_fewset_lacks_are_rejected(
    settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    write_json(tmp_path / SETTINGS, {"size": 7, "image_mean": HALF, "image_std": HALF, **settings})
    with pytest.raises(ValueError, match=message):
        read_preprocessing(tmp_path)


def test_a_classifier_has_no_pooler_so_the_class_token_is_taken(tmp_path: Path) -> None:
    """A pooler with random weights would give other rows each time that the model is loaded."""
    config, processor, options = HUGGINGFACE["vit"]
    model = transformers.ViTForImageClassification(config).eval()
    model.save_pretrained(tmp_path)
    processor(**options).save_pretrained(tmp_path)
    pixels = processor(**options)([photograph()], return_tensors="pt")["pixel_values"]
    with torch.inference_mode():
        expected = model.vit(pixel_values=pixels).last_hidden_state[:, 0]
    rows = find_encoder(f"hf:{tmp_path}")([photograph()])
    np.testing.assert_allclose(rows, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_a_model_with_random_masks_is_rejected(tmp_path: Path) -> None:
    options = HUGGINGFACE["vit"][0].to_diff_dict()
    config = transformers.ViTMAEConfig(**{key: options[key] for key in options if key != "model_type"})
    transformers.ViTMAEModel(config).save_pretrained(tmp_path)
    write_json(tmp_path / SETTINGS, {"size": 30, "image_mean": HALF, "image_std": HALF})
    with pytest.raises(UserError, match="gives an image other features each time"):
        find_encoder(f"hf:{tmp_path}")


def test_weights_in_any_file_of_an_index_belong_to_the_digest(tmp_path: Path) -> None:
    path = write_huggingface(tmp_path)
    whole, part = path / "model.safetensors", path / "part.safetensors"
    names = load_file(whole)
    whole.rename(part)
    index = path / "model.safetensors.index.json"
    write_json(index, {"metadata": {}, "weight_map": dict.fromkeys(names, part.name)})
    before = find_encoder(f"hf:{path}").digest
    save_file({name: value + 1 for name, value in names.items()}, part, metadata={"format": "pt"})
    assert find_encoder(f"hf:{path}").digest != before
    for elsewhere in ("../part.safetensors", "part.bin", 3):
        write_json(index, {"metadata": {}, "weight_map": dict.fromkeys(names, elsewhere)})
        with pytest.raises(UserError, match=r"index.json cannot be read .*; download"):
            find_encoder(f"hf:{path}")


@pytest.mark.parametrize(
    "asked", [{"transformers_weights": "other.safetensors"}, {"use_pretrained_backbone": True}]
)
def test_weights_from_elsewhere_are_rejected(asked: dict[str, Any], tmp_path: Path) -> None:
    path = write_huggingface(tmp_path)
    config = json.loads((path / "config.json").read_text())
    write_json(path / "config.json", config | {"backbone_config": asked})
    with pytest.raises(UserError, match="asks for weights from elsewhere"):
        find_encoder(f"hf:{path}")


def test_nothing_is_asked_for_on_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    usual = transformers.AutoModel.from_pretrained

    def from_pretrained(*words: Any, **options: Any) -> Any:
        seen.append(huggingface_hub.constants.is_offline_mode())
        return usual(*words, **options)

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", from_pretrained)
    find_encoder(f"hf:{write_huggingface(tmp_path)}")
    assert seen == [True]
    assert not huggingface_hub.constants.HF_HUB_OFFLINE


@pytest.mark.parametrize("name", ["config.json", SETTINGS, "model.safetensors"])
def test_a_pipe_among_the_files_is_rejected(name: str, tmp_path: Path) -> None:
    path = write_huggingface(tmp_path / "vit", "vit")
    (path / name).unlink()
    os.mkfifo(path / name)
    with pytest.raises(UserError, match=f"{name} is not a regular file"):
        find_encoder(f"hf:{path}")


def test_pickled_weights_are_rejected(tmp_path: Path) -> None:
    path = write_huggingface(tmp_path)
    weights = load_file(path / "model.safetensors")
    (path / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"no weights in model\*.safetensors \(none\)"):
        find_encoder(f"hf:{path}")
    torch.save(weights, path / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"only pickled ones, which can run code.*save_pretrained"):
        find_encoder(f"hf:{path}")


def test_code_beside_a_model_is_never_run(tmp_path: Path) -> None:
    path = write_huggingface(tmp_path / "model")
    ran = tmp_path / "ran"
    (path / "custom.py").write_text(f"open({str(ran)!r}, 'w')\nclass Custom: pass\n")
    config = json.loads((path / "config.json").read_text())
    mapping = {"AutoConfig": "custom.Custom", "AutoModel": "custom.Custom"}
    write_json(path / "config.json", {**config, "model_type": "custom", "auto_map": mapping})
    with pytest.raises(UserError, match="cannot be read") as caught:
        find_encoder(f"hf:{path}")
    assert "\n" not in str(caught.value)
    assert not ran.exists()


def change_config(path: Path, **changes: object) -> None:
    file = path / "config.json"
    write_json(file, {**json.loads(file.read_text()), **changes})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: (path / "config.json").unlink(), "cannot be read"),
        (lambda path: change_config(path, num_hidden_layers=2**63), "num_hidden_layers is 9.*at most 1,000"),
        (lambda path: change_config(path, vision={"depths": [3, 5000]}), "depths is 5000, expected at most"),
        (lambda path: (path / "config.json").write_text("{"), "cannot be read"),
        (lambda path: (path / "model.safetensors").write_bytes(b"\0" * 9), "cannot be read"),
        (lambda path: (path / SETTINGS).unlink(), "there is no .*preprocessor_config.json"),
        (lambda path: (path / SETTINGS).write_text("[1]"), "cannot be read"),
        (lambda path: resize(path, 40), "does not embed an image of 40 x 40 pixels"),
        (lambda path: resize(path, [32]), "cannot be read"),
        (lambda path: resize(path, 10**9), "1000000000\\) pixels, expected 4096 at most"),
        (lambda path: change(path, image_mean=[10**400, 0, 0]), "too large"),
        (lambda path: drop(path, "layernorm.weight"), "lack layernorm.weight"),
    ],
)
def test_damage_is_one_line(spoil: Any, message: str, tmp_path: Path) -> None:
    path = write_huggingface(tmp_path)
    spoil(path)
    with pytest.raises(UserError, match=message) as caught:
        find_encoder(f"hf:{path}")
    assert "\n" not in str(caught.value)


def resize(path: Path, size: Any) -> None:
    change(path, size={"height": size, "width": size})


def change(path: Path, **changes: Any) -> None:
    write_json(path / SETTINGS, json.loads((path / SETTINGS).read_text()) | changes)


def drop(path: Path, name: str) -> None:
    weights = load_file(path / "model.safetensors")
    del weights[name]
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})


def test_a_name_of_the_hub_is_not_downloaded() -> None:
    with pytest.raises(UserError, match="`hf download facebook/dinov2-small --local-dir DIR`"):
        find_encoder("hf:facebook/dinov2-small")
