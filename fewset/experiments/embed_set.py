"""Embeddings as a file of features, which `fewset data import features` takes, and any other program."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int64

from fewset.data.features.array_files import check_name, write_arrays
from fewset.data.images.store import SPLITS, ImageSet, open_set
from fewset.evaluation.embedding import embed_images
from fewset.experiments.recipes import read_recipe
from fewset.experiments.run_directory import RECIPE
from fewset.experiments.weights import load
from fewset.models.model import image_embedder
from fewset.models.task_model import TaskModel
from fewset.runtime.devices import pick_device
from fewset.runtime.errors import UserError
from fewset.runtime.progress import progress

_ROWS = 1024  # images embedded before their embeddings are written


def embed_set(
    run: Path,
    out: Path,
    data: str | None = None,
    val: bool = False,
    *,
    split: str | None = None,
    device: str = "auto",
) -> tuple[int, int]:
    """Embed an image set (by default the run's own) with the backbone of a run; returns the table's shape.

    The classes of the train split are the seen ones, those of the test split the unseen ones, and those of
    the val split are left out. With `val` they are the unseen classes of a validation setup: then the file
    has the two setups of the low-shot benchmark, each with half of the seen classes. With `split` the file
    has the items of that split alone ("all" for every split), for other programs.
    """
    if val and split is not None:
        raise UserError(f"--val adds the val split to train and test, but --split {split} is one alone")
    check_name(out)
    if out.exists():
        raise UserError(f"{out} exists; choose another name, or remove it first")
    if not (run / RECIPE).exists():
        raise UserError(f"{run} is not a run directory: it has no {RECIPE}")
    recipe = read_recipe(run / RECIPE)
    model = image_embedder(load(run), "fewset embed").to(pick_device(device))
    images = open_set(data or recipe.data.set)
    splits = [split] if split else [name for name in SPLITS if val or name != "val"]
    rows = np.concatenate([images.select(name).rows for name in splits])
    classes, labels = np.unique(images.labels[rows], return_inverse=True)
    split_of = np.zeros(len(classes), dtype=np.int64)
    split_of[labels] = images.splits[rows]
    columns = {
        "labels": labels,
        "class_names": np.array(images.class_names)[classes],
        **(_setups(split_of) if val else {"class_split": np.where(split_of == 0, "seen", "unseen")}),
    }
    write_arrays(out, columns, (len(rows), model.dim), _pieces(model, images, rows))
    return len(rows), model.dim


def _setups(split_of: Int64[np.ndarray, "classes"]) -> dict[str, Int64[np.ndarray, "_"]]:
    train, val, test = (np.flatnonzero(split_of == number) for number in range(len(SPLITS)))
    return {
        "base_classes_1": train[::2],
        "novel_classes_1": val,
        "base_classes_2": train[1::2],
        "novel_classes_2": test,
    }


def _pieces(
    model: TaskModel, images: ImageSet, rows: Int64[np.ndarray, "n"]
) -> Iterator[Float32[np.ndarray, "_ D"]]:
    with progress("embedding", len(rows)) as advance:
        for first in range(0, len(rows), _ROWS):
            part = rows[first : first + _ROWS]
            yield embed_images(model, images.images, part).cpu().numpy()
            advance(len(part))
