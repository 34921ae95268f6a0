"""A model of transformers as a backbone of a few-shot model."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from fewset.core.errors import UserError
from fewset.encoders import find_encoder
from fewset.encoders.torch_networks.trainable import HuggingFaceBackbone
from fewset.experiments.build import build_model
from fewset.experiments.config import ModelConfig
from fewset.experiments.train_run import execute
from fewset.experiments.weights import load
from fewset.io.files import write_json
from fewset.io.reading import read_json
from tests.helpers.encoders import HUGGINGFACE, photograph, write_huggingface
from tests.helpers.tiny_recipes import TRAIN, recipe


@pytest.mark.parametrize("kind", HUGGINGFACE)
def test_it_embeds_as_the_encoder_of_the_directory(kind: str, tmp_path: Path) -> None:
    path = write_huggingface(tmp_path / kind, kind)
    encoder, backbone = find_encoder(f"hf:{path}"), HuggingFaceBackbone(str(path)).eval()
    photo = photograph(0, 53, 47)
    pixels = torch.from_numpy(encoder.preprocessing.pixels(photo).copy()).permute(2, 0, 1)[None]
    model = build_model(ModelConfig(backbone=f"hf:{path}")).eval()
    with torch.inference_mode():
        embedded = model.embed(pixels)
    assert (model.input_size, model.dim) == (pixels.shape[-1], backbone.dim)
    torch.testing.assert_close(embedded, torch.from_numpy(encoder([photo])), rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("tiny_set")
def test_it_is_trained_and_loaded_again(tmp_path: Path) -> None:
    path = write_huggingface(tmp_path / "resnet", "resnet")
    model = {"backbone": f"hf:{path}", "backbone_options": {"input_size": 20}, "adapter": "attention"}
    run = tmp_path / "run"
    execute(recipe({**TRAIN, "name": "run", "model": model}, init="", epochs=1), "train", run)
    trained, before = load_file(run / "model.safetensors"), load_file(path / "model.safetensors")
    changed = [
        name for name, value in before.items() if not torch.equal(trained[f"backbone.network.{name}"], value)
    ]
    assert len(changed) > len(before) / 2, "it learns"
    loaded = load(run)
    name = changed[0]
    assert torch.equal(loaded.backbone.network.state_dict()[name], trained[f"backbone.network.{name}"])


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no directory"):
        build_model(ModelConfig(backbone=f"hf:{tmp_path / 'absent'}"))
    path = write_huggingface(tmp_path / "vit")
    with pytest.raises(UserError, match="input_size"):
        build_model(ModelConfig(backbone=f"hf:{path}", backbone_options={"input_size": "many"}))
    file = path / "preprocessor_config.json"
    write_json(file, read_json(file) | {"size": {"height": 30, "width": 20}})
    with pytest.raises(UserError, match="20 x 30 pixels"):
        HuggingFaceBackbone(str(path))
