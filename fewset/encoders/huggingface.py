"""`hf:DIRECTORY`: a vision model of the transformers library, as saved by it or downloaded from the Hub.

DINOv2, SigLIP, CLIP, ViT, ConvNeXt, ResNet and their like. Only safetensors are read, nothing is downloaded,
no code of a model is run. `preprocessor_config.json` is read here, as some models' own processors need
torchvision.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fewset.core.errors import UserError
from fewset.core.extras import import_extra
from fewset.encoders import register_encoder
from fewset.encoders.network import NetworkEncoder, tried
from fewset.encoders.preprocessing import BILINEAR, Preprocessing
from fewset.io.paths import recorded_path, user_path
from fewset.io.reading import read_json, regular_file
from fewset.models.backbones import Channels

_CONFIG, _WEIGHTS = "config.json", "model*.safetensors"
_DEEPEST = 1000  # layers
_ELSEWHERE = {"transformers_weights", "use_pretrained_backbone"}
_STEPS = {"do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_convert_rgb"}
_CONVNEXT_STRETCHES = 384  # pixels, from which on the processor of ConvNeXt crops nothing


@register_encoder("hf:")
def load_huggingface(directory: str, device: torch.device) -> NetworkEncoder:
    """The encoder in a directory with `config.json`, `preprocessor_config.json` and `model*.safetensors`."""
    path = user_path(directory)
    weights = _weights(path)
    preprocessing = read_preprocessing(path)
    model, has_pooler = _load(path)
    model.eval().requires_grad_(False).to(device, memory_format=torch.channels_last)
    network = _network(model, has_pooler)
    dim = tried(network, preprocessing, device, path)
    digest = preprocessing.digest([path / _CONFIG, *weights])
    return NetworkEncoder(f"hf:{recorded_path(path)}", dim, digest, preprocessing, network, device)


def read_preprocessing(path: Path) -> Preprocessing:
    """The settings of `preprocessor_config.json`; what fewset does not do is refused, never left out.

    Where a file names no filter it is bilinear, as the first files of ViT mean it. Where the shorter side is
    resized and nothing is cropped, the central square is taken.
    """
    file, settings = _settings(path)
    asked = {key for key in settings if key.startswith("do_") and settings[key]} - _STEPS
    asked |= {"rescale_offset"} if settings.get("rescale_offset") else set()
    if asked:
        raise UserError(
            f"{file} asks for {', '.join(sorted(asked))}, which fewset does not do; take another model"
        )
    if not settings.get("do_resize", True):
        raise UserError(f"{file} says do_resize = false, but images of all sizes come; set it, and size")
    try:
        values = _values(settings)
    except (ArithmeticError, KeyError, OSError, TypeError, ValueError) as error:
        raise UserError(
            f"{file} is not understood ({error!r}); expected size, image_mean and image_std as the "
            "processors of ViT, CLIP, SigLIP, DINOv2 and ConvNeXt write them"
        ) from None
    return Preprocessing(**values)


def _values(settings: Mapping[str, Any]) -> dict[str, Any]:
    (height, width), resize = _sizes(settings)
    for pixels in (height, width, *(resize if isinstance(resize, tuple) else (resize,))):
        if type(pixels) is not int:
            raise TypeError(f"a side of {pixels!r:.50} pixels")
    normalised = settings.get("do_normalize", True)
    return {
        "height": height,
        "width": width,
        "resize": resize,
        "mean": _channels(settings["image_mean"]) if normalised else (0.0, 0.0, 0.0),
        "std": _channels(settings["image_std"]) if normalised else (1.0, 1.0, 1.0),
        "resample": settings.get("resample", BILINEAR),
        "scale": float(settings.get("rescale_factor", 1 / 255)) if settings.get("do_rescale", True) else 1.0,
    }


def _sizes(settings: Mapping[str, Any]) -> tuple[tuple[Any, Any], Any]:
    """Height and width of the crop, and what the image is resized to before, as the file has them.

    Old files have bare numbers.
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
        return square, square if resize >= _CONVNEXT_STRETCHES else int(
            resize / (settings.get("crop_pct") or 0.875)
        )
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
    try:
        settings = read_json(file)
        return file, dict(settings if file == alone else settings["image_processor"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{file} does not hold the settings of an image processor: {error!r}") from None


def _weights(path: Path) -> list[Path]:
    if not path.is_dir():
        raise UserError(
            f"there is no directory {path}, and fewset downloads nothing: with `hf download {path} "
            "--local-dir DIR` it can be fetched from the Hub, then name hf:DIR"
        )
    for file in path.iterdir():
        if not file.is_dir():
            regular_file(file)
    weights = sorted({*path.glob(_WEIGHTS), *_named_in_indexes(path)})
    if not weights:
        pickled = "only pickled ones, which can run code" if list(path.glob("*.bin")) else "none"
        raise UserError(
            f"{path} has no weights in {_WEIGHTS} ({pickled}); where you trust them, save them again with "
            "transformers' AutoModel.from_pretrained(OLD).save_pretrained(NEW)"
        )
    return weights


def _named_in_indexes(path: Path) -> Iterator[Path]:
    """The files that large weights are divided into, by the index beside them."""
    for index in path.glob("*.safetensors.index.json"):
        try:
            names = set(dict(read_json(index)["weight_map"]).values())
        except (KeyError, OSError, TypeError, ValueError) as error:
            raise UserError(f"{index} is not an index of weights: {error!r}; get it anew") from None
        for name in names:
            if not isinstance(name, str) or not name.endswith(".safetensors") or Path(name).name != name:
                raise UserError(f"{index} names {name!r:.100}, expected .safetensors files in {path}")
            yield path / name


def _check_config(path: Path) -> None:
    """Refuse a network that would take for ever to build, or weights from elsewhere.

    Whatever else is wrong, transformers says.
    """
    try:
        tables = [read_json(path / _CONFIG)]
    except (OSError, ValueError):
        return
    for table in tables:  # which grows
        for key, value in table.items() if isinstance(table, dict) else ():
            sizes = value if isinstance(value, list) else [value]
            tables += [each for each in sizes if isinstance(each, dict)]
            if key in _ELSEWHERE and value:
                raise UserError(
                    f"{path / _CONFIG}: {key} asks for weights from elsewhere; take another model"
                )
            most = max((each for each in sizes if isinstance(each, int)), default=0)
            if ("layers" in key or "depth" in key) and most > _DEEPEST:
                raise UserError(f"{path / _CONFIG}: {key} is {most}, expected at most {_DEEPEST:,}")


def _load(path: Path) -> tuple[Any, bool]:
    """The model, and whether its pooler has weights: a classifier is saved without, it would be random."""
    transformers = import_extra("transformers", "hf")
    _check_config(path)
    try:
        with _silent(transformers.utils.logging), _offline():
            model, report = transformers.AutoModel.from_pretrained(
                path,
                dtype=torch.float32,
                local_files_only=True,
                output_loading_info=True,
                trust_remote_code=False,
                use_safetensors=True,
            )
    except Exception as error:  # a damaged file makes the libraries raise almost anything
        reason = " ".join(str(error).split())
        raise UserError(f"transformers cannot load {path}: {reason or type(error).__name__}") from error
    pooler = {name for name in report["missing_keys"] if name.startswith("pooler.")}
    wrong = sorted({*map(str, report["missing_keys"]), *map(str, report["mismatched_keys"])} - pooler)
    if wrong:
        raise UserError(
            f"the weights in {path} lack {', '.join(wrong[:3])}, or have another shape; get them anew"
        )
    return model, not pooler


def _network(model: Any, has_pooler: bool) -> Callable[[Tensor], Tensor]:
    """Images to rows: the pooled output, or the class token of a model that pools nothing."""
    run = getattr(model, "get_image_features", model)  # of models for images and text

    def embed(images: Tensor) -> Tensor:
        output = run(pixel_values=images)
        if isinstance(output, Tensor):
            return output
        pooled: Tensor | None = output.get("pooler_output") if has_pooler else None
        return output.last_hidden_state[:, 0] if pooled is None else pooled.flatten(1)

    return embed


@contextmanager
def _offline() -> Iterator[None]:
    """Block the library's requests to the network, but only here: the caller may still download."""
    constants = import_extra("huggingface_hub.constants", "hf")
    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


@contextmanager
def _silent(logging: Any) -> Iterator[None]:
    """No progress bar, no advice."""
    bar, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
