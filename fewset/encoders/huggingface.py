"""`hf:DIRECTORY`: a vision model of the transformers library, as saved by it or downloaded from the Hub.

DINOv2, SigLIP, CLIP, ViT, ConvNeXt, ResNet and similar models. Only safetensors are read, nothing is
downloaded, no code of a model is run. `preprocessor_config.json` is read here, as some models' own processors
need torchvision.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from operator import index
from pathlib import Path
from typing import Any

from fewset.core.errors import UserError
from fewset.core.extras import import_extra
from fewset.encoders import register_encoder
from fewset.encoders.network import NetworkEncoder, tried
from fewset.encoders.preprocessing import BILINEAR, Preprocessing
from fewset.io.paths import recorded_path, user_path
from fewset.io.reading import Damaged, parsing, read_json, regular_file, remedy
from fewset.models.channels import Channels

_CONFIG, _WEIGHTS = "config.json", "model*.safetensors"
_DEEPEST = 1000  # layers
_ELSEWHERE = {"transformers_weights", "use_pretrained_backbone"}
_STEPS = {"do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_convert_rgb"}
_CONVNEXT_STRETCHES = 384  # pixels, from which on the processor of ConvNeXt crops nothing


@register_encoder("hf:")
def load_huggingface(directory: str, device: str) -> NetworkEncoder:
    """The encoder in a directory with `config.json`, `preprocessor_config.json` and `model*.safetensors`."""
    path = user_path(directory)
    with remedy("download the model again, or take another"):
        weights = weights_in(path)
        preprocessing = read_preprocessing(path)
        model, has_pooler = load_model(path)
    import torch

    model.eval().requires_grad_(False).to(device, memory_format=torch.channels_last)
    network = network_of(model, has_pooler)
    digest = preprocessing.digest([path / _CONFIG, *weights])
    return tried(NetworkEncoder(f"hf:{recorded_path(path)}", 0, digest, preprocessing, network, device), path)


def read_preprocessing(path: Path) -> Preprocessing:
    """The settings of `preprocessor_config.json`; an error for a step that fewset does not have.

    A file without a filter means bilinear, as the first files of ViT do. If the shorter side is resized and
    nothing is cropped, the central square is taken.
    """
    file, settings = _settings(path)
    asked = {key for key in settings if settings[key] and (key.startswith("do_") or key == "rescale_offset")}
    if steps := sorted(asked - _STEPS):
        raise UserError(f"{file} asks for {', '.join(steps)}, which fewset does not do; take another model")
    if not settings.get("do_resize", True):
        raise UserError(f"{file} says do_resize = false, but images have all sizes; set it, and size")
    with parsing(file):
        (height, width), resize = _sizes(settings)
        normalised = settings.get("do_normalize", True)
        mean, std = (_channels(settings[f"image_{key}"]) if normalised else None for key in ("mean", "std"))
        return Preprocessing(
            index(height),
            index(width),
            resize if isinstance(resize, int) else (index(resize[0]), index(resize[1])),
            mean=mean or (0.0, 0.0, 0.0),
            std=std or (1.0, 1.0, 1.0),
            resample=index(settings.get("resample", BILINEAR)),
            scale=float(settings.get("rescale_factor", 1 / 255)) if settings.get("do_rescale", True) else 1.0,
        )


def _sizes(settings: Mapping[str, Any]) -> tuple[tuple[Any, Any], Any]:
    """Height and width of the crop, and the size to which the image is resized before.

    Old files have a size in place of a table.
    """
    kind = settings.get("image_processor_type") or settings.get("feature_extractor_type") or ""
    convnext = "ConvNext" in kind or "crop_pct" in settings
    crops = settings.get("do_center_crop", "crop_size" in settings) and not convnext
    size = settings["size"]
    if isinstance(size, int):
        size = {"shortest_edge": size} if crops or convnext else {"height": size, "width": size}
    resize = size["shortest_edge"] if "shortest_edge" in size else (size["height"], size["width"])
    square = (resize, resize) if isinstance(resize, int) else resize
    if convnext and isinstance(resize, int):
        cropped = int(resize / (settings.get("crop_pct") or 0.875))
        return square, square if resize >= _CONVNEXT_STRETCHES else cropped
    if not crops:
        return square, resize
    crop = settings["crop_size"]
    return (crop, crop) if isinstance(crop, int) else (crop["height"], crop["width"]), resize


def _channels(values: Any) -> Channels:
    red, green, blue = map(float, values)
    return red, green, blue


def _settings(path: Path) -> tuple[Path, dict[str, Any]]:
    """The settings of the processor, which newer directories have as a part of another file."""
    alone, among_others = path / "preprocessor_config.json", path / "processor_config.json"
    file = alone if alone.exists() or not among_others.exists() else among_others
    if not file.exists():
        raise UserError(f"there is no {file}, which says how images are prepared; download it with the model")
    with parsing(file):
        settings = read_json(file)
        return file, dict(settings if file == alone else settings["image_processor"])


def weights_in(path: Path) -> list[Path]:
    if not path.is_dir():
        download = f"`hf download {path} --local-dir DIR`"
        raise UserError(
            f"there is no directory {path}; fetch it from the Hub with {download} and name hf:DIR"
        )
    for file in path.iterdir():
        if not file.is_dir():
            regular_file(file)
    weights = set(path.glob(_WEIGHTS))
    files = {file.name: file for file in path.glob("*.safetensors")}
    for index_file in path.glob("*.safetensors.index.json"):  # which names files of the same directory
        with parsing(index_file):
            weights |= {files[name] for name in read_json(index_file)["weight_map"].values()}
    if not weights:
        pickled = "only pickled ones, which can run code" if list(path.glob("*.bin")) else "none"
        raise UserError(
            f"{path} has no weights in {_WEIGHTS} ({pickled}); where you trust them, save them again with "
            "transformers' AutoModel.from_pretrained(OLD).save_pretrained(NEW)"
        )
    return sorted(weights)


def _check_config(file: Path, settings: Any) -> None:
    """Raise for a network that would take for ever to build, and for weights from other places."""
    for key, value in settings.items() if isinstance(settings, dict) else ():
        if key in _ELSEWHERE and value:
            raise UserError(f"{file}: {key} asks for weights from elsewhere; take another model")
        values = value if isinstance(value, list) else [value]
        most = max((each for each in values if isinstance(each, int)), default=0)
        if ("layers" in key or "depth" in key) and most > _DEEPEST:
            raise UserError(f"{file}: {key} is {most}, expected at most {_DEEPEST:,}")
        for inner in values:
            _check_config(file, inner)


def load_model(path: Path) -> tuple[Any, bool]:
    """The model, and whether its pooler has weights: classifiers are saved without them."""
    transformers = import_extra("transformers", "hf")
    if (path / _CONFIG).exists():
        _check_config(path / _CONFIG, read_json(path / _CONFIG))
    with parsing(path), _silent_and_offline(transformers.utils.logging):
        model, report = transformers.AutoModel.from_pretrained(
            path,
            dtype="float32",
            local_files_only=True,
            output_loading_info=True,
            trust_remote_code=False,
            use_safetensors=True,
        )
    pooler = {name for name in report["missing_keys"] if name.startswith("pooler.")}
    wrong = sorted({*map(str, report["missing_keys"]), *map(str, report["mismatched_keys"])} - pooler)
    if wrong:
        raise Damaged(path, f"has weights that lack {', '.join(wrong[:3])}, or have another shape")
    return model, not pooler


def network_of(model: Any, has_pooler: bool) -> Callable[[Any], Any]:
    """Images to rows: the pooled output, or the class token of a model that pools nothing."""
    run = getattr(model, "get_image_features", model)  # of models for images and text

    def embed(images: Any) -> Any:
        output = run(pixel_values=images)
        if not hasattr(output, "last_hidden_state"):  # a tensor
            return output
        pooled = output.get("pooler_output") if has_pooler else None
        return output.last_hidden_state[:, 0] if pooled is None else pooled.flatten(1)

    return embed


@contextmanager
def _silent_and_offline(logging: Any) -> Iterator[None]:
    """No progress bar, no advice and no request to the network, but only here: the caller may download."""
    constants = import_extra("huggingface_hub.constants", "hf")
    bar, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    offline, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = offline
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
