"""Items of a data set: their rows in its table, their classes, and the index that draws tasks from them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from fewset.tasks.sampling import ClassIndex
from fewset.tasks.spec import TaskSpec


@dataclass(frozen=True, eq=False)
class Items:
    """Some items of a data set, such as those of a split. What each column means, `ClassIndex` says."""

    rows: Int[np.ndarray, " items"]
    labels: Int[np.ndarray, " items"]
    """The class of each item, an index into `class_names`."""
    class_names: Sequence[str] | None = None
    origins: Int[np.ndarray, " items"] | None = None
    domains: Int[np.ndarray, " items"] | None = None
    support: Bool[np.ndarray, " items"] | None = None
    query: Bool[np.ndarray, " items"] | None = None
    nearest: Int[np.ndarray, "classes others"] | None = None
    """The other classes of each class of the set, nearest first, where that is known."""
    left_out: tuple[str, ...] = ()
    """Names of the classes that were left out because they have too few items."""

    @cached_property
    def index(self) -> ClassIndex:
        """What tasks are drawn from."""
        columns = ("origins", "domains", "support", "query", "nearest")
        return ClassIndex(self.labels, self.class_names, **{name: getattr(self, name) for name in columns})

    def take(self, places: Int[np.ndarray, " taken"]) -> "Items":
        """Some of these items."""
        columns = ("rows", "labels", "origins", "domains", "support", "query")
        given: dict[str, Any] = {name: getattr(self, name) for name in columns}
        return replace(self, **{name: each[places] for name, each in given.items() if each is not None})

    def drawable(self, spec: TaskSpec, skip_small_classes: bool = False) -> "Items":
        """These items if such tasks can be drawn from them, else an error.

        With `skip_small_classes` the classes that have too few items are left out first.
        """
        items = self
        small = self.index.spare(spec.shot, spec.query) < 0
        if skip_small_classes and small.any() and not small.all():
            items = self.take(np.flatnonzero(np.isin(self.labels, self.index.classes[~small])))
            items = replace(items, left_out=tuple(np.asarray(self.index.names)[small].tolist()))
        items.index.check(spec.way, spec.shot, spec.query)
        if spec.related:
            items.index.anchors(spec.way, spec.related)
        return items
