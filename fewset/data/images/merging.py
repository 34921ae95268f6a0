"""Merge several image sets into one, to train on all of them together."""

import shlex
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64

from fewset.core.errors import UserError
from fewset.core.progress import progress
from fewset.data.images.store import LAYOUT, ImageSet, open_set, set_path, write_store
from fewset.data.manifest import Origin, sha256_of

_ROWS = 1024


def merge_sets(names: Sequence[str], name: str | None = None, replace: bool = False) -> ImageSet:
    """Make one image set of several. Tasks drawn from it have classes of all of them.

    Every class stays in its split, and its name begins with that of its set: "cub: Indigo Bunting". Every set
    becomes a domain (a domain "Photo" of the set "sketchy" becomes "sketchy-Photo"), so that a model can be
    trained or scored on one of them.

    Args:
        names: Two image sets or more, all stored at the same size.
        name: The name of the new set; by default their names, joined by "-".
        replace: Replace a set of that name that came from another source.

    Returns:
        The new set, opened.

    Raises:
        ValueError: The sets are stored at different sizes, one is named twice, or the name is taken.
    """
    sets = [open_set(each) for each in names]
    called = [images.name for images in sets]
    name = name or "-".join(called)
    _check(sets, name)
    path = set_path(name)
    origin = Origin(f"merge {' '.join(called)}", sha256_of("merge " + " ".join(each.digest for each in sets)))
    if not replace:
        LAYOUT.check_source(path, origin)

    starts = np.cumsum([0, *(len(images.labels) for images in sets)])
    classes = np.cumsum([0, *(len(images.class_names) for images in sets[:-1])])
    domain_names, domains = _domains(sets)
    with (
        write_store(
            path,
            size=sets[0].size,
            labels=np.concatenate([each.labels + first for each, first in zip(sets, classes, strict=True)]),
            class_names=[f"{images.name}: {each}" for images in sets for each in images.class_names],
            splits=np.concatenate([images.splits for images in sets]),
            domains=domains,
            domain_names=domain_names,
            origins=_origins(sets, starts[:-1]),
            source=origin.words,
            source_key=origin.key,
            command=shlex.join(["fewset", "data", "import", "sets", "+".join(names), "--name", name]),
        ) as draft,
        progress(f"merging {name}", int(starts[-1])) as advance,
    ):
        for images, start in zip(sets, starts[:-1], strict=True):
            for first in range(0, len(images.labels), _ROWS):
                rows = images.images[first : first + _ROWS]
                draft.images[start + first : start + first + len(rows)] = rows
                advance(len(rows))
    return open_set(path)


def _check(sets: Sequence[ImageSet], name: str) -> None:
    names = [images.name for images in sets]
    if len(sets) < 2:
        raise UserError("a set by itself cannot be merged; name two sets or more")
    if len(set(names)) < len(names):
        raise UserError(f"a set is named twice among {', '.join(names)}; name each set once")
    if name in (*names, *LAYOUT.generated):
        raise UserError(f"the name {name!r} is that of another set; choose another one with --name")
    for images in sets:
        if images.size != sets[0].size:
            raise UserError(
                f"{names[0]!r} is stored at {sets[0].size} px a side and {images.name!r} at {images.size}; "
                "import one of them again with the --size of the other"
            )


def _domains(sets: Sequence[ImageSet]) -> tuple[list[str], Int64[np.ndarray, " items"]]:
    """The names of all domains, and the index of each item's: its set, or a domain of its set."""
    names: list[str] = []
    indices = []
    for images in sets:
        own = np.zeros(len(images.labels), dtype=np.int64) if images.domains is None else images.domains
        indices.append(own + len(names))
        names += [f"{images.name}-{domain}" for domain in images.domain_names] or [images.name]
    if len(set(names)) < len(names):
        raise UserError(
            f"two domains would have one name among {', '.join(names)}; import a set by another --name"
        )
    return names, np.concatenate(indices)


def _origins(
    sets: Sequence[ImageSet], starts: Int64[np.ndarray, " sets"]
) -> Int64[np.ndarray, " items"] | None:
    """The origin of each item, by default the item itself; None if no set has origins."""
    if all(images.origins is None for images in sets):
        return None
    own = (np.arange(len(images.labels)) if images.origins is None else images.origins for images in sets)
    return np.concatenate([each + start for each, start in zip(own, starts, strict=True)])
