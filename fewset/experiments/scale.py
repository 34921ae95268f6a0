"""The scale of a model's images: at how many pixels a side those were stored that it was trained on.

A model sees the middle of a stored image, 84 of its 92 pixels for example. In a set that is stored at another
size the same things are larger or smaller, which may cost points.
"""

import warnings
from pathlib import Path

from fewset.data.images.importers import IMPORTERS
from fewset.data.images.store import ImageSet
from fewset.experiments.config import Recipe
from fewset.experiments.run_directory import WEIGHTS
from fewset.experiments.weights import stored_size


def warn_of_scale(run: Path, recipe: Recipe, images: ImageSet) -> None:
    """Warn where a set is stored at another size than the one that a run was trained on.

    A model with `scales` looks at a share of each image, whatever its size. Weights from before their size
    was kept were trained on a set as `fewset data import` stores it by default, if its name is that of a
    layout; of others nobody knows.
    """
    by_default = {name: layout.size for name, layout in IMPORTERS.items()}
    trained = stored_size(run / WEIGHTS) or by_default.get(recipe.data.set)
    if trained is None or recipe.model.scales or trained == images.size:
        return
    warnings.warn(
        f"{images.name!r} is stored at {images.size} px, and {run} was trained on images stored at {trained} "
        f"px, so that things have another size; import the set with --size {trained}",
        stacklevel=3,
    )
