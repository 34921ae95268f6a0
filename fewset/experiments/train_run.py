"""A recipe becomes a run directory: train, keep the best weights, score them."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from fewset.compute import distributed
from fewset.compute.devices import pick_device, usable_precision
from fewset.core.errors import UserError
from fewset.data.features.table import FeatureTable
from fewset.evaluation.embedding import embed_images
from fewset.experiments.build import build_model, open_data, with_dim
from fewset.experiments.config import Recipe
from fewset.experiments.recipes import read_recipe, recipe_text, recorded_recipe
from fewset.experiments.result import Result, read_result
from fewset.experiments.run_directory import RECIPE, RESULT, TRACKING, WEIGHTS, RunDirectory, RunState
from fewset.experiments.score_run import check_evaluation, evaluate_run
from fewset.experiments.starting_weights import (
    changes_since,
    check_held_out,
    describe_start,
    find_init,
    made_of,
)
from fewset.experiments.tracking import Tracking
from fewset.experiments.weights import initialise, load, save_weights
from fewset.io.files import file_digest
from fewset.io.paths import inside
from fewset.models.model import FewShotModel, embedding_model
from fewset.training.batches import TrainingItems
from fewset.training.episodic import MetaTraining
from fewset.training.feature_training import FeatureTraining
from fewset.training.frozen import FrozenTraining
from fewset.training.joint import JointTraining
from fewset.training.loop import Stage, check_divisible, fit
from fewset.training.pretrain import Pretraining

Kind = Literal["pretrain", "train"]

_CPU = torch.device("cpu")


def execute(
    recipe: Recipe,
    kind: Kind,
    out: Path,
    *,
    resume: bool = False,
    force: bool = False,
    device: str = "auto",
    echo: Callable[[str], None] = print,
    log_to: Iterable[str] = (),
) -> Result:
    """Run a recipe to its end in the directory `out`; returns what `result.json` there holds.

    With `resume` a run that was stopped goes on, and the result of a finished one comes back; with `force` it
    starts anew. `echo` is given what the user should know at once, and the trackers `log_to` each epoch.
    """
    if getattr(recipe, kind) is None:
        other = "train" if kind == "pretrain" else "pretrain"
        raise UserError(f"recipe {recipe.name!r} has no [{kind}] table; use `fewset {other}`")
    if resume and force:
        raise UserError("--resume goes on with a run, --force starts anew; give one of them")
    run = RunDirectory(out)

    def tell(line: str) -> None:
        run.log(line)
        echo(line)

    tracking = Tracking(tell)
    with run.alone():
        recipe = with_dim(recipe)
        distributed.on_main_process(lambda: tracking.choose(log_to))
        if resume and distributed.on_main_process(lambda: _resumed_state(run, recipe)) == "finished":
            return _finished_result(out, recipe, device, echo)
        return _train(recipe, run, tracking, resume, force, device, tell)


def _train(
    recipe: Recipe,
    run: RunDirectory,
    tracking: Tracking,
    resume: bool,
    force: bool,
    device: str,
    tell: Callable[[str], None],
) -> Result:
    out, kind = run.path, recipe.kind
    config: Any = getattr(recipe, kind)
    places = (out.parent / recipe.init, Path(recipe.init)) if recipe.init else ()
    if any(place.resolve().is_relative_to(out.resolve()) for place in places):
        raise UserError(f"{out} would learn from itself; name the new run with --set name=NAME or --out")
    where = pick_device(device)
    precision, note = usable_precision(config.precision, where)
    changes: Any = {kind: replace(config, precision=precision)}
    began_with = made_of(recipe, out.parent)  # before they are read: if they are replaced, that is noticed
    stage = stage_for(replace(recipe, **changes), out.parent, where)
    check_divisible(stage.per_step)

    def begin() -> None:
        processes = distributed.world_size()
        environment = {"device": str(where), "precision": precision, "processes": processes}
        text = recipe_text(recorded_recipe(recipe, out.parent))
        run.begin(text, resume, force, **environment, **began_with)
        tracking.start(recipe, inside(out, Path(TRACKING)))

    run.follow = tracking.rows
    with tracking:
        distributed.on_main_process(begin)
        start = describe_start(stage.model, find_init(recipe.init, out.parent)) if recipe.init else ""
        for line in filter(None, (note, start)):
            tell(line)
        fit(stage, run)
        if recipe.model.gate and not config.epochs:
            stage.validate()  # chooses the gate of weights that stay as they are
        changed = distributed.on_main_process(lambda: changes_since(run, recipe))
        if changed:
            raise UserError(f"{changed}: it was replaced while the run was trained; start anew with --force")
        size = _stored_size(recipe)
        distributed.on_main_process(lambda: save_weights(stage.model, recipe.model, out / WEIGHTS, size))
        result = evaluate_run(out, device=device)[0]
        tracking.finish(result)
    return result


def _resumed_state(run: RunDirectory, recipe: Recipe) -> RunState:
    """The state of a run to go on with, which must be one of the same recipe, on the same data."""
    file = run.path / RECIPE
    if run.state != "new" and not (file.exists() and _recorded_alike(read_recipe(file), recipe, run)):
        raise UserError(
            f"the recipe differs from {file}: resume with the same recipe and the same --set, or start anew "
            "with --force"
        )
    changed = changes_since(run, recipe)
    if run.state == "unfinished" and changed:
        raise UserError(f"{changed}; start anew with --force")
    return run.state


def _recorded_alike(first: Recipe, second: Recipe, run: RunDirectory) -> bool:
    beside = run.path.parent
    return recorded_recipe(first, beside) == recorded_recipe(second, beside)


def _finished_result(out: Path, recipe: Recipe, device: str, echo: Callable[[str], None]) -> Result:
    """The result of a finished run; scored anew if its weights or its data are not those of the result."""
    result = read_result(out / RESULT)
    made_of = (file_digest(out / WEIGHTS), open_data(recipe.model, recipe.data.set).digest)
    if (result.weights_digest, result.data_digest) != made_of:
        echo(f"{out}: the weights or the data are not those of the result; scoring anew")
        return evaluate_run(out, device=device)[0]
    return result


def stage_for(recipe: Recipe, beside: Path, device: torch.device = _CPU) -> Stage:
    """The stage of training that a recipe describes; `beside` is where it looks for initial weights."""
    recipe = with_dim(recipe)
    data = open_data(recipe.model, recipe.data.set)
    model = build_model(recipe.model, recipe.seed).to(device)
    check_evaluation(recipe, model)  # now, not only after the training
    begins = None
    if recipe.init:
        source = find_init(recipe.init, beside)
        if recipe.data.hold_out:
            check_held_out(recipe, source)
        begins = load(source)
        initialise(model, begins, source)
    if isinstance(data, FeatureTable):
        assert recipe.train is not None  # as in every recipe on features
        on_features = embedding_model(model, "training on features")
        return FeatureTraining(on_features, data, recipe.train, recipe.seed)
    items = TrainingItems.of(data, recipe.data.domain, recipe.data.hold_out, recipe.seed)
    if "centre" in (recipe.model.feature_transform or ()):
        _fit_transform(embedding_model(model, "the step 'centre' of model.feature_transform"), items)
    if model.capabilities.adapter_fitted and not (begins and begins.capabilities.adapter_fitted):
        _fit_adapter(embedding_model(model, "an adapter that begins with the train classes"), items)
    if recipe.pretrain is not None:
        pretrained = embedding_model(model, "pre-training")
        return Pretraining(pretrained, items, recipe.pretrain, recipe.seed)
    assert recipe.train is not None  # a recipe has one table or the other
    if recipe.train.freeze_backbone or recipe.train.frozen_blocks:
        frozen = embedding_model(model, "a frozen backbone", or_maps=True)
        return FrozenTraining(frozen, items, recipe.train, recipe.seed)
    if recipe.train.joint is not None:
        joint = embedding_model(model, "joint training (train.joint)")
        return JointTraining(joint, items, recipe.train, recipe.seed)
    return MetaTraining(model, items, recipe.train, recipe.seed)


def _fit_transform(model: FewShotModel, items: TrainingItems) -> None:
    """Take the mean of the train split's embeddings, as the backbone gives them before the training."""
    plain = FewShotModel(model.backbone, model.adapter, model.head, test_time_flip=model.test_time_flip)
    model.feature_transform.fit(
        embed_images(plain, items.images.images, items.train.rows, title="embedding the train split")
    )


def _fit_adapter(model: FewShotModel, items: TrainingItems) -> None:
    """Give an adapter that begins with them the embeddings and classes of the train split."""
    features = embed_images(model, items.images.images, items.train.rows, title="embedding the train split")
    adapter: Any = model.adapter
    adapter.fit(features, torch.from_numpy(items.train.labels).to(features.device))


def _stored_size(recipe: Recipe) -> int | None:
    """Pixels a side of the images that a recipe trains on, as they are stored; None of features."""
    data = open_data(recipe.model, recipe.data.set)
    return None if isinstance(data, FeatureTable) else data.size
