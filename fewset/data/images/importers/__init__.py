"""Image sets as they are distributed, read into a store. Each layout is one file.

A new layout is one file with one function, under `@register_importer("name")`. The function takes a `Source`
(a directory or zip file) and lists its images, each as an `Entry` with its class and split. It decodes none
of them: `fewset.import_set` does the rest. The arguments of the decorator set another
stored size or class split.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from fewset.core.registry import Registry
from fewset.data.images.decoding import Box
from fewset.data.images.sources import Source

_SIZE = 92
"""Stored pixels a side: the margin that the paper's Resize(92) + CenterCrop(84) needs."""
SHARES = (64, 16, 20)
"""Train, val and test classes of miniImageNet."""


class Entry(NamedTuple):
    """An image of a source."""

    file: str
    class_name: str
    split: str | None = None
    """None: the source has no splits, so the classes are split at random."""
    domain: str | None = None
    origin: str | None = None
    """Images of two domains with the same origin must never be in one task."""
    box: Box | None = None
    """None: the whole image."""
    quarter_turns: int = 0
    """Counter-clockwise."""
    group: str | None = None
    """The group of its class: classes of one group are near each other. None for all: there are no groups."""
    read: Callable[[], bytes | UInt8[np.ndarray, "height width 3"]] | None = None
    """Returns the image if it is not a file of its own; `file` is then only a name."""


class Importer(NamedTuple):
    """The function that lists the images of a layout, their stored size, and the shares of a random split."""

    entries: Callable[[Source], list[Entry]]
    size: int = _SIZE
    shares: tuple[int, int, int] = SHARES

    def __str__(self) -> str:
        return f"{self.entries.__module__}.{self.entries.__qualname__}"


IMPORTERS: Registry[Importer] = Registry("importer", __name__)

_Entries = Callable[[Source], list[Entry]]


def register_importer(
    name: str, *, size: int = _SIZE, shares: tuple[int, int, int] = SHARES
) -> Callable[[_Entries], _Entries]:
    """Register a function that lists the images of a source as the importer of a layout.

    Args:
        name: The name of the layout for `fewset data import`, which must be free.
        size: Pixels of a side of the stored images, unless the user gives another number.
        shares: The shares of the classes in train, validation and test, if the layout has no splits.

    Returns:
        The decorator; it returns the function unchanged.

    Raises:
        ValueError: The name is taken.

    Example:
        >>> import fewset
        >>> from fewset.data.images.importers import Entry
        >>> @fewset.register_importer("pairs")  # images LABEL-NUMBER.png in one directory
        ... def entries(source):
        ...     return [Entry(file, file.partition("-")[0]) for file in source.images()]
    """

    def decorate(entries: _Entries) -> _Entries:
        IMPORTERS.register(name)(Importer(entries, size, shares))
        return entries

    return decorate
