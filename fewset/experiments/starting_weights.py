"""The data and weights that a training starts from, and whether it holds out items that these have seen."""

from dataclasses import replace
from pathlib import Path

from fewset.core.errors import UserError
from fewset.data.features.table import FeatureTable
from fewset.data.images.store import ImageSet, list_sets, open_set
from fewset.data.manifest import Origin
from fewset.experiments.build import open_data
from fewset.experiments.config import Recipe
from fewset.experiments.recipes import run_recipe
from fewset.experiments.run_directory import RECIPE, WEIGHTS, RunDirectory
from fewset.experiments.weights import released_models
from fewset.io.files import file_digest
from fewset.io.paths import user_path


def find_init(init: str, beside: Path) -> Path:
    """The weights that training starts from: a run beside the new one, a path, or a released model."""
    released = released_models()
    known = [released[init]] if init in released else []
    for candidate in (beside / init, user_path(init), *known):
        if candidate.exists():
            return candidate
    raise UserError(
        f"init is {init!r}, but there is no such run in {beside}, no such path and no such released model "
        f"({', '.join(released) or 'there are none'}); make it first with `fewset pretrain`, or start from "
        "elsewhere with --set train.init=PATH (pretrain.init for a pre-training; empty for random weights)"
    )


def made_of(recipe: Recipe, beside: Path, data: ImageSet | FeatureTable) -> dict[str, str]:
    """The digests of a training's data and of the weights that it starts from."""
    digests = {"data_digest": data.digest}
    if recipe.init:
        source = find_init(recipe.init, beside)
        digests["init_digest"] = file_digest(source / WEIGHTS if source.is_dir() else source)
    return digests


def changes_since(run: RunDirectory, recipe: Recipe) -> str:
    """A sentence about data or weights that changed since a run began; empty if none did or it is unknown."""
    names = {"data_digest": recipe.data.set, "init_digest": recipe.init}
    try:
        now = made_of(recipe, run.path.parent, open_data(recipe.model, recipe.data.set))
    except UserError:  # the data or the weights were removed: nothing shows a change
        return ""
    other = [name for key, name in names.items() if run.made_of.get(key, now.get(key)) != now.get(key)]
    return f"{other[0]!r} is not the one that {run.path} began with" if other else ""


def check_held_out(recipe: Recipe, source: Path) -> None:
    """Reject initial weights that may have been trained on the items that a recipe holds out."""
    if _may_know(recipe, source):
        share = recipe.data.hold_out
        raise UserError(
            f"recipe {recipe.name!r} holds out items (data.hold_out = {share}), but {source} was not trained "
            "without the same ones: make it with the same [data] table and seed, "
            f"`fewset pretrain … --set data.hold_out={share} --set seed={recipe.seed}`, or hold out nothing"
        )


def _may_know(recipe: Recipe, source: Path, followed: frozenset[Path] = frozenset()) -> bool:
    """Whether weights may have been trained on items that a recipe holds out.

    Weights from another image set were not, unless the weights that they started from were. Weights that are
    not found are taken to be from the same set.
    """
    if not (source / RECIPE).exists():
        return True
    first, digest = run_recipe(source), RunDirectory(source).made_of.get("data_digest")
    images = open_set(recipe.data.set)
    if first.data.set == recipe.data.set or digest == images.digest:
        here, there = (replace(each.data, set="") for each in (recipe, first))
        same_items = (there, first.seed) == (here, recipe.seed)
        return not same_items or digest not in (None, images.digest)
    if first.data.set in list_sets() or ("/" in first.data.set and Path(first.data.set).exists()):
        others = open_set(first.data.set)
        if Origin.in_manifest(images.manifest).is_that_of(others.manifest):  # at two sizes perhaps
            return True
        digest = digest or others.digest
    if digest == images.digest:
        return True
    followed |= {source.resolve()}
    try:
        start = find_init(first.init, source.parent) if first.init else source
    except UserError:
        return True
    return start.resolve() not in followed and _may_know(recipe, start, followed)
