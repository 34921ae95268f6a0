"""The items of an image set that tasks are drawn from, before any of them is embedded."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from fewset.tasks.sampling import ClassIndex
from fewset.tasks.spec import TaskSpec


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows of an image set, and the index that draws tasks from them."""

    rows: Int[np.ndarray, "items"]
    index: ClassIndex
    left_out: tuple[str, ...] = ()
    """Names of the classes that have too few items."""

    def checked(self, spec: TaskSpec, skip_small_classes: bool = False) -> "Pool":
        """This pool if such tasks can be drawn from it, else an error.

        With `skip_small_classes` the classes that have too few items are left out first.
        """
        pool = self
        small = self.index.spare(spec.shot, spec.query) < 0
        if skip_small_classes and small.any() and not small.all():
            kept, index = self.index.restrict(~small)
            names = tuple(np.asarray(self.index.names)[small].tolist())
            pool = Pool(self.rows[kept], index, names)
        pool.index.check(spec.way, spec.shot, spec.query)
        return pool
