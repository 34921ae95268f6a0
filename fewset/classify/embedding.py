"""Photos to rows of features: a function, and how encoders are found.

A classifier's file gives the path of an encoder relative to its own folder, so that both can be moved
together and loaded from any working directory.
"""

import os
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from fewset.classify.model import Learned
from fewset.classify.photos.rows import PhotoRow, photo_rows
from fewset.classify.photos.sources import as_sequence, opened_photos
from fewset.core.errors import UserError
from fewset.data.images.store import ImageSet
from fewset.encoders import Encoder, is_encoder
from fewset.encoders.onnx_file import parts_of, settings_of
from fewset.experiments.run_encoder import load_encoder
from fewset.io.paths import recorded_path, user_path

_LISTED = 3
_MOST_FILES = 10_000  # of a directory


def chosen_encoder(encoder: str | Encoder, device: str = "auto") -> Encoder:
    """The encoder of a name, loaded again only if its files have changed, or the given encoder itself."""
    if isinstance(encoder, str):
        return _loaded(encoder, device, _files(encoder))
    if not callable(encoder):
        raise UserError(f"encoder is {encoder!r}, expected a name, the path of a run, or an encoder")
    return encoder


def encoder_of(learned: Learned, given: str | Encoder | None, device: str = "auto") -> Encoder:
    """The encoder with which a classifier was made: the given one, or the one that its file names."""
    if given is not None:
        found = chosen_encoder(given, device)
    else:
        try:
            found = chosen_encoder(learned.encoder.id if learned.encoder else "auto", device)
        except UserError as error:
            raise UserError(
                f"{error}; if the classifier's encoder is elsewhere, say where: --encoder, in Python encoder="
            ) from None
    learned.check_encoder(found)
    return found


@lru_cache(maxsize=2)
def _loaded(name: str, device: str, files: tuple[Any, ...]) -> Encoder:  # noqa: ARG001, part of the key
    return load_encoder(name, device)


def _files(name: str) -> tuple[tuple[Path, int, int], ...]:
    """The files of an encoder with the times and sizes that change with their content."""
    files = (file.absolute() for file in files_of(name) or files_of(f"./{name}") if file.is_file())
    return tuple((file, file.stat().st_mtime_ns, file.stat().st_size) for file in files)


def embed(photos: Any, encoder: str | Encoder = "auto", device: str = "auto") -> Float32[np.ndarray, "n D"]:
    """The rows of features of photos, one row each.

    Args:
        photos: A folder, a zip file, a sequence of paths, Pillow images or arrays of pixels, an `ImageSet`.
        encoder: A name, the path of a run, or an encoder itself. An `ImageSet` with a run or a released model
            gives the set's table of embeddings, on which tasks are scored.
        device: Where to compute: "auto", "cpu", "cuda", "cuda:1", "mps".

    Returns:
        The table, in the order of the photos (of a folder: sorted by path).

    Raises:
        ValueError: The encoder is unknown, there are no photos, or one cannot be read.

    Example:
        >>> from PIL import Image
        >>> import fewset
        >>> fewset.embed([Image.new("RGB", (64, 64), "red")]).shape
        (1, 1280)
    """
    if isinstance(photos, ImageSet):
        if isinstance(encoder, str) and not is_encoder(encoder):
            from fewset.evaluation.embedding import embed_images
            from fewset.experiments.weights import load
            from fewset.models.model import image_embedder

            rows = np.arange(len(photos.labels))
            model = image_embedder(load(encoder), "fewset.embed")
            return embed_images(model, photos.images, rows).cpu().numpy()
        photos = photos.images
    with opened_photos(as_sequence(photos)) as opened:
        return readable_features(photo_rows(opened, chosen_encoder(encoder, device)))


def readable_features(rows: Iterable[PhotoRow]) -> Float32[np.ndarray, "n D"]:
    """The features of photos, or an error if one cannot be read."""
    features, bad = [], []
    for row in rows:
        features.append(row.features)
        if row.problem:
            bad.append(f"{row.name}: {row.problem}")
    if bad:
        more = f", and {len(bad) - _LISTED} more" if len(bad) > _LISTED else ""
        raise UserError(
            f"{len(bad)} of {len(features)} photos cannot be read ({'; '.join(bad[:_LISTED])}{more}); "
            "replace or remove them"
        )
    return np.stack(features)


def name_in_file(name: str, folder: Path) -> str:
    """The name of an encoder, its path made relative to a folder instead of the working directory."""
    family, path = _parts(name)
    return _joined(family, recorded_path(path, folder)) if path and _exists(path) else name


def name_from_file(name: str, folder: Path) -> str:
    """The name of an encoder, its path made relative to the working directory instead of a folder."""
    family, path = _parts(name)
    return _joined(family, recorded_path(folder / path)) if path and _exists(folder / path) else name


def files_of(name: str) -> list[Path]:
    """The files of an encoder that is a file or a directory; none for any other name."""
    named = _parts(name)[1]
    path = None if named is None else user_path(named)
    if path is None or not _exists(path):
        return []
    if path.is_dir():
        return [file for file in islice(path.rglob("*"), _MOST_FILES) if file.is_file()]
    return [*parts_of(path), settings_of(path)]


def _parts(name: str) -> tuple[str, Path | None]:
    """The family of an encoder, with its colon, and its path; the name of a run always has a slash."""
    family, colon, rest = name.partition(":")
    if rest and is_encoder(name):
        return family + colon, Path(rest)
    return "", Path(name) if "/" in name else None


def _joined(family: str, path: str) -> str:
    return family + path if family or "/" in path else f"./{path}"


def _exists(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110, False for a text that is no path
