"""The embeddings of an image set, as a file for any program or as a table of features.

Both record the digests of the weights and of the images that made them.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int64

from fewset.compute.devices import pick_device
from fewset.core.errors import UserError
from fewset.core.progress import progress
from fewset.data.features.importer import query_roles
from fewset.data.features.table import FeatureTable, open_features, table_path, write_features
from fewset.data.images.decoding import decode_photo
from fewset.data.images.store import SPLITS, ImageSet, open_set
from fewset.data.manifest import Origin
from fewset.encoders import find_encoder, is_encoder
from fewset.evaluation.embedding import embed_images
from fewset.experiments.recipes import run_recipe
from fewset.experiments.result import command_line
from fewset.experiments.run_directory import WEIGHTS
from fewset.experiments.weights import find_model, load
from fewset.io.array_files import check_name, write_arrays
from fewset.io.files import file_digest
from fewset.models.model import image_embedder
from fewset.tasks.items import Items

OF_A_RUN = "run "
"""The beginning of the source of a table that was made from a run directly."""

_ROWS = 1024  # images embedded before their embeddings are written


def embed_set(
    source: str | Path,
    out: Path,
    data: str | None = None,
    val: bool = False,
    *,
    split: str | None = None,
    domain: str | None = None,
    device: str = "auto",
) -> tuple[int, int]:
    """Embed an image set with the backbone of a run, or with an encoder of that name; returns the shape.

    By default it is the set of the run's recipe. An encoder gets the images as they are stored: for one of
    224 pixels import the set with `--size 224`.

    The classes of the train split are seen classes, those of the test split unseen classes, and those of the
    val split are left out. With `val` they are the unseen classes of a validation setup, and the file has the
    two setups of the low-shot benchmark, each with half of the seen classes. With `split` the file has only
    the items of that split ("all" for every split), with `domain` only those of that domain.
    """
    if val and split is not None:
        raise UserError(f"--val adds the val split to train and test, but --split {split} is one alone")
    check_name(out)
    if out.exists():
        raise UserError(f"{out} exists; choose another name, or remove it first")
    embedder = _open(source, data, device)
    images = embedder.images
    splits = [split] if split else [name for name in SPLITS if val or name != "val"]
    items, split_of = _items(images, splits, domain)
    columns = {
        "labels": items.labels,
        "class_names": np.array(items.class_names),
        **(_setups(split_of) if val else {"class_split": np.where(split_of == 0, "seen", "unseen")}),
        **{key: np.array([digest]) for key, digest in embedder.made_from.items()},
    }
    features = np.concatenate(list(_pieces(embedder, items.rows)))
    write_arrays(out, columns | {"features": features})
    return len(items.rows), embedder.dim


def embed_table(run: Path, name: str, *, device: str = "auto") -> FeatureTable:
    """The run's own image set as a table of features; it replaces a table of that name when it is complete.

    It is the same as the table that `import_features` makes of the file of `embed_set`.
    """
    embedder, origin = _open(run, None, device), Origin.of(run, OF_A_RUN)
    items, split_of = _items(embedder.images, ["train", "test"])
    names = items.class_names or ()
    write_features(
        table_path(name),
        _pieces(embedder, items.rows),
        dim=embedder.dim,
        labels=items.labels,
        roles=query_roles(items.labels, names),
        class_names=names,
        unseen=split_of != 0,
        setups=np.zeros(len(names), dtype=np.int64),
        source=origin.words,
        source_key=origin.key,
        command=command_line(),
        made_from=embedder.made_from,
    )
    return open_features(name)


def made_from(run: Path, images: ImageSet) -> dict[str, str]:
    """The digests that the embeddings of images by a run depend on."""
    return {"weights_digest": file_digest(run / WEIGHTS), "images_digest": images.digest}


class _Embedder(NamedTuple):
    """A function that embeds images, and the digests of both."""

    images: ImageSet
    dim: int
    embed: Callable[[np.ndarray], np.ndarray]
    made_from: dict[str, str]


def _open(source: str | Path, data: str | None, device: str) -> _Embedder:
    if is_encoder(str(source)):
        if data is None:
            raise UserError(f"the encoder {str(source)!r} has no image set of its own; name one with --data")
        encoder, images = find_encoder(str(source), device), open_set(data)
        return _Embedder(
            images,
            encoder.dim,
            lambda rows: encoder([decode_photo(images.images[row], encoder.input_size) for row in rows]),
            {"weights_digest": encoder.digest, "images_digest": images.digest},
        )
    run = find_model(source)
    model = image_embedder(load(run), "fewset embed").to(pick_device(device))
    images = open_set(data or run_recipe(run).data.set)
    return _Embedder(
        images,
        model.dim,
        lambda rows: embed_images(model, images.images, rows).cpu().numpy(),
        made_from(run, images),
    )


def _items(
    images: ImageSet, splits: list[str], domain: str | None = None
) -> tuple[Items, Int64[np.ndarray, " classes"]]:
    """The items of these splits, one after the other, and the split of each of their classes."""
    rows = np.concatenate([images.select(name, domain).rows for name in splits])
    classes, labels = np.unique(images.labels[rows], return_inverse=True)
    split_of = np.zeros(len(classes), dtype=np.int64)
    split_of[labels] = images.splits[rows]
    return Items(rows, labels, [images.class_names[each] for each in classes]), split_of


def _setups(split_of: Int64[np.ndarray, " classes"]) -> dict[str, Int64[np.ndarray, " _"]]:
    train, val, test = (np.flatnonzero(split_of == number) for number in range(len(SPLITS)))
    setups = (train[::2], val, train[1::2], test)
    names = ("base_classes_1", "novel_classes_1", "base_classes_2", "novel_classes_2")
    return dict(zip(names, setups, strict=True))


def _pieces(embedder: _Embedder, rows: Int64[np.ndarray, " n"]) -> Iterator[Float32[np.ndarray, "_ D"]]:
    with progress("embedding", len(rows)) as advance:
        for first in range(0, len(rows), _ROWS):
            part = rows[first : first + _ROWS]
            yield embedder.embed(part)
            advance(len(part))
