"""Relate the classes of a set to each other by groups, by an encoder, or by both."""

from pathlib import Path

import numpy as np

from fewset.core.errors import UserError
from fewset.core.progress import progress
from fewset.data.images.decoding import pictures
from fewset.data.images.importers.csv import table_rows
from fewset.data.images.nearness import Nearness, groups_by_name, nearest_classes, write_nearness
from fewset.data.images.store import ImageSet
from fewset.encoders import find_encoder

LAST_WORD = "last-word"
"""Instead of a CSV file: the last word of a class's name is its group."""


def relate_set(
    images: ImageSet,
    groups: str | None = None,
    encoder: str | None = None,
    per_class: int = 50,
    device: str = "auto",
) -> Nearness:
    """Write which classes of a set are near each other beside it, for `TaskSpec(related=...)`.

    Args:
        images: The set.
        groups: A CSV file with the columns `class` and `group`, or "last-word".
        encoder: The encoder whose class means are compared, of the first images of each class. At least one
            of `groups` and `encoder` is needed; with both, classes of other groups come last.
        per_class: How many images of each class to embed.
        device: Where the encoder computes.
    """
    if groups is None and encoder is None:
        raise UserError("classes are related by groups or by an encoder; give --groups, --encoder or both")
    named, means, sources = None, None, []
    if groups == LAST_WORD:
        named = groups_by_name(images.class_names)
        sources.append("groups by the last word of class names")
    elif groups is not None:
        named = _groups_in_csv(Path(groups), images.class_names)
        sources.append(f"groups of {Path(groups).name}")
    if encoder is not None:
        found = find_encoder(encoder, device)
        labels = range(len(images.class_names))
        rows = [np.flatnonzero(images.labels == label)[:per_class] for label in labels]
        if not all(map(len, rows)):
            raise UserError(f"a class of {images.name!r} has no images; import the set again")
        means = np.empty((len(rows), found.dim))
        with progress("embedding classes", len(rows)) as advance:
            for label, chosen in enumerate(rows):
                means[label] = found(pictures(images.images[chosen])).mean(axis=0)
                advance(1)
        sources.append(f"class means of {found.id} ({found.digest[:12]}), {per_class} images a class")
    nearness = Nearness(images.digest, ", then ".join(sources), nearest_classes(named, means))
    write_nearness(nearness, images.path)
    return nearness


def _groups_in_csv(path: Path, class_names: tuple[str, ...]) -> list[str]:
    """The group of each class from a table with the columns `class` and `group`."""
    rows = table_rows(path.read_bytes(), str(path), ("class", "group"))
    groups = {name: group for _, (name, group) in rows}
    missing = [name for name in class_names if name not in groups]
    if missing:
        raise UserError(f"{path} has no group for the class {missing[0]!r}; add a line for it")
    return [groups[name] for name in class_names]
