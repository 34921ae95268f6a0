"""Run a recipe into a run directory: train, keep the best weights, score them."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from fewset.compute import distributed
from fewset.compute.devices import pick_device, usable_precision
from fewset.core.errors import UserError
from fewset.data.features.table import FeatureTable
from fewset.data.images.store import ImageSet
from fewset.evaluation.embedding import embed_images
from fewset.experiments.build import build_model, open_data, with_dim
from fewset.experiments.card import CARD, run_card
from fewset.experiments.config import Recipe
from fewset.experiments.recipes import read_recipe, recipe_text, recorded_recipe
from fewset.experiments.result import Result, read_result
from fewset.experiments.run_directory import RECIPE, RESULT, TRACKING, WEIGHTS, RunDirectory
from fewset.experiments.score_run import check_evaluation, evaluate_run
from fewset.experiments.starting_weights import changes_since, check_held_out, find_init, made_of
from fewset.experiments.trackers import Tracking
from fewset.experiments.weights import initialise, load, save_weights
from fewset.io.files import write_text
from fewset.io.paths import inside, recorded_path
from fewset.models.model import FewShotModel, embedding_model
from fewset.models.task_model import TaskModel
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
    """Run a recipe to its end in the directory `out`; returns the result that `result.json` there holds.

    With `resume` a run that was stopped goes on, and a finished one returns its result; with `force` it
    starts again. `echo` gets messages for the user, and the trackers `log_to` get each epoch.
    """
    if getattr(recipe, kind) is None:
        other = "train" if kind == "pretrain" else "pretrain"
        raise UserError(f"recipe {recipe.name!r} has no [{kind}] table; use `fewset {other}`")
    if resume and force:
        raise UserError("--resume goes on with a run, --force starts it again; give one of them")
    run = RunDirectory(out)

    def tell(line: str) -> None:
        run.files.log(line)
        echo(line)

    tracking = Tracking(tell)
    with run.locked():
        recipe = with_dim(recipe)
        distributed.on_main_process(lambda: tracking.choose(log_to))
        if resume:
            distributed.on_main_process(lambda: _check_resumable(run, recipe))
            if distributed.on_main_process(lambda: run.state) == "finished":
                return read_result(out / RESULT)
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
    data = open_data(recipe.model, recipe.data.set)
    began_with = made_of(recipe, out.parent, data)  # first, to notice if they are replaced
    stage, start = _prepare(replace(recipe, **changes), out.parent, where, data)
    check_divisible(stage.per_step)

    def begin() -> None:
        processes = distributed.world_size()
        environment = {"device": str(where), "precision": precision, "processes": processes}
        text = recipe_text(recorded_recipe(recipe, out.parent))
        run.begin(text, resume, force, **environment, **began_with)
        tracking.start(recipe, inside(out, Path(TRACKING)))

    run.files.follow = tracking.rows
    with tracking:
        distributed.on_main_process(begin)
        for line in filter(None, (note, start)):
            tell(line)
        fit(stage, run.files)
        if recipe.model.gate and not config.epochs:
            stage.validate()  # chooses the gate of weights that stay as they are
        changed = distributed.on_main_process(lambda: changes_since(run, recipe))
        if changed:
            raise UserError(f"{changed}: it was replaced while the run was trained; start again with --force")
        size = data.size if isinstance(data, ImageSet) else None
        distributed.on_main_process(lambda: save_weights(stage.model, recipe.model, out / WEIGHTS, size))
        result = evaluate_run(out, device=device)[0]
        distributed.on_main_process(lambda: write_text(out / CARD, run_card(recipe, result)))
        tracking.finish(result)
    return result


def _check_resumable(run: RunDirectory, recipe: Recipe) -> None:
    """Check that a run that was begun has the same recipe and, until it is finished, the same data."""
    if run.state == "new":
        return
    file = run.path / RECIPE
    recorded = [recorded_recipe(each, run.path.parent) for each in (read_recipe(file), recipe)]
    if recorded[0] != recorded[1]:
        raise UserError(
            f"the recipe differs from {file}: resume with the same recipe and the same --set, or start again "
            "with --force"
        )
    changed = changes_since(run, recipe)
    if run.state == "unfinished" and changed:
        raise UserError(f"{changed}; start again with --force")


def stage_for(recipe: Recipe, beside: Path, device: torch.device = _CPU) -> Stage:
    """The stage of training that a recipe describes; `beside` is the directory of its initial weights."""
    recipe = with_dim(recipe)
    return _prepare(recipe, beside, device, open_data(recipe.model, recipe.data.set))[0]


def _prepare(
    recipe: Recipe, beside: Path, device: torch.device, data: ImageSet | FeatureTable
) -> tuple[Stage, str]:
    """The stage, and a line for the log about the weights that it starts from."""
    model, start = build_model(recipe.model, recipe.seed).to(device), ""
    check_evaluation(recipe, model, data)  # now, not only after the training
    adapter_begun = False
    if recipe.init:
        source = find_init(recipe.init, beside)
        if recipe.data.hold_out:
            check_held_out(recipe, source)
        initial = load(source)
        initialise(model, initial, source)
        start = f"starts from {recorded_path(source)}"
        adapter_begun = initial.capabilities.adapter_fitted
    if isinstance(data, FeatureTable):
        assert recipe.train is not None  # as in every recipe on features
        on_features = embedding_model(model, "training on features")
        return FeatureTraining(on_features, data, recipe.train, recipe.seed), start
    items = TrainingItems.of(data, recipe.data.domain, recipe.data.hold_out, recipe.seed)
    if "centre" in (recipe.model.feature_transform or ()):
        centred = embedding_model(model, "the step 'centre' of model.feature_transform")
        flip = centred.test_time_flip
        plain = FewShotModel(centred.backbone, centred.adapter, centred.head, test_time_flip=flip)
        centred.feature_transform.fit(_embed_train_split(plain, items))
    if model.capabilities.adapter_fitted and not adapter_begun:
        fitted: Any = embedding_model(model, "an adapter that begins with the train classes")
        features = _embed_train_split(fitted, items)
        fitted.adapter.fit(features, torch.from_numpy(items.train.labels).to(features.device))
    return _stage_on_images(recipe, model, items), start


def _stage_on_images(recipe: Recipe, model: TaskModel, items: TrainingItems) -> Stage:
    if recipe.pretrain is not None:
        return Pretraining(embedding_model(model, "pre-training"), items, recipe.pretrain, recipe.seed)
    config = recipe.train
    assert config is not None  # a recipe has one table or the other
    if config.freeze_backbone or config.frozen_blocks:
        frozen = embedding_model(model, "a frozen backbone", or_maps=True)
        return FrozenTraining(frozen, items, config, recipe.seed)
    if config.joint is not None:
        joint = embedding_model(model, "joint training (train.joint)")
        return JointTraining(joint, items, config, recipe.seed)
    return MetaTraining(model, items, config, recipe.seed)


def _embed_train_split(model: TaskModel, items: TrainingItems) -> Float[Tensor, "items D"]:
    return embed_images(model, items.images.images, items.train.rows, title="embedding the train split")
