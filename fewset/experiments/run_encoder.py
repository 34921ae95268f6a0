"""A run or a released model as an encoder of photographs, and every encoder by its name."""

from pathlib import Path
from typing import Any

from fewset.core.errors import unknown_name
from fewset.encoders import ENCODERS, Encoder, find_encoder, is_encoder
from fewset.encoders.network import NetworkEncoder
from fewset.encoders.preprocessing import BILINEAR, Preprocessing
from fewset.io.paths import recorded_path, user_path


def load_encoder(name: str = "auto", device: str = "auto") -> Encoder:
    """A registered encoder or a released model by its name, a run or a weights file by its path."""
    if name.startswith("~"):
        name = str(user_path(name))
    if is_encoder(name):
        return find_encoder(name, device)
    from fewset.experiments.weights import released_models

    released = released_models()
    if name not in released and not Path(name).exists():
        raise unknown_name("encoder, run directory or released model", name, {*ENCODERS, *released, "auto"})
    return run_encoder(name, device)


def run_encoder(source: str, device: str = "auto") -> NetworkEncoder:
    """The backbone of a run, a weights file or a released model.

    The shorter side of a photograph becomes the backbone's input size, the centre is cropped: as images are
    imported into a set of that size.
    """
    import torch

    from fewset.compute.devices import pick_device
    from fewset.experiments.weights import find_weights, load_weights, released_models
    from fewset.models.model import image_embedder

    path = find_weights(source)
    model = image_embedder(load_weights(path)[0], f"the encoder {source!r}")
    backbone: Any = model.backbone
    size, place = model.input_size, pick_device(device)
    preprocessing = Preprocessing(size, size, size, backbone.mean, backbone.std, resample=BILINEAR)
    tried_on = torch.randint(256, (2, 3, size, size), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        folded = model.folded(tried_on.to(torch.uint8)).to(place)
    known = source
    if source not in released_models():
        known = recorded_path(source)
        known = known if "/" in known else f"./{known}"  # a path, not the name of another encoder
    return NetworkEncoder(
        known, model.dim, preprocessing.digest([path]), preprocessing, folded.embed_normalised, str(place)
    )
