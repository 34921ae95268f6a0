"""The recipes of one image set, and the runs that are made of them when a study needs them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path

from fewset.core.errors import UserError
from fewset.data.features.table import list_features
from fewset.data.images.store import ImageSet, list_sets, open_set
from fewset.experiments.build import open_data, with_dim
from fewset.experiments.config import Recipe
from fewset.experiments.recipes import (
    list_recipes,
    read_recipe,
    recipe_path,
    recorded_recipe,
    shipped_recipes,
)
from fewset.experiments.run_directory import RECIPE, RunDirectory
from fewset.experiments.score_run import evaluate_run
from fewset.experiments.starting_weights import changes_since
from fewset.experiments.train_run import execute
from fewset.experiments.weights import copy_model, is_copy, released_models
from fewset.paper.study import PlannedRun

_SHARED = ("data.", "model.", "evaluate.", "seed=")  # changes that concern both stages


class StudyRunner:
    """Where a study is made: `on` is how the names of its recipes begin, "strokes" or "miniimagenet/conv4".

    `overrides` are the user's, for all runs; `tasks` the number of tasks, where it is not the recipe's;
    `features` a table of features, for the study that needs one; `device` is where all of it is computed;
    `log_to` are trackers of the trainings, by name.
    """

    def __init__(
        self,
        on: str,
        runs: Path,
        overrides: Iterable[str] = (),
        tasks: int | None = None,
        features: str | None = None,
        device: str = "auto",
        echo: Callable[[str], None] = lambda _: None,
        log_to: Sequence[str] = (),
    ) -> None:
        self.on, self.runs, self.echo, self.features, self.device = on, runs, echo, features, device
        self.log_to = log_to
        self.overrides = tuple(overrides)
        for override in self.overrides:
            if not override.startswith((*_SHARED, "pretrain.", "train.")):
                raise UserError(
                    f"--set {override}: a study takes changes of the tables data, model, pretrain, train and "
                    "evaluate, and of the seed"
                )
        self.tasks = {} if tasks is None else {"tasks": tasks}

    @cached_property
    def images(self) -> ImageSet:
        return open_set(self.recipe(PlannedRun("pretrain")).data.set)

    def recipe(self, run: PlannedRun) -> Recipe:
        """The recipe of a run, every change made, under a name of its own if anything has changed."""
        path = self._file(run)
        plain = read_recipe(path, self._overrides(path, run))
        changes, tags = list(run.changes), [run.tag]
        if run.shot is not None and plain.train is not None and plain.train.shot != run.shot:
            changes += [f"train.shot={run.shot}", f"evaluate.shot={run.shot}"]
            tags.insert(0, f"{run.shot}shot")
        if plain.init and run.data_changes:
            changes.append(f"{plain.kind}.init={self.recipe(self._initial(run)).name}")
        recipe = read_recipe(path, [*self._overrides(path, run), *changes])
        return plain if recipe == plain else replace(recipe, name="-".join([plain.name, *filter(None, tags)]))

    def directory(self, run: PlannedRun) -> Path:
        """Where a run is or will be."""
        return self.runs / self.recipe(run).name

    def data_digest(self, run: PlannedRun) -> str | None:
        """The digest of the data that a run is scored on; None where they are not imported here."""
        recipe = self.recipe(run)
        if recipe.data.set not in (*list_sets(), *list_features()):
            return None
        return open_data(recipe.model, recipe.data.set).digest

    def training_tasks(self, run: PlannedRun) -> tuple[int, ...]:
        """How many tasks each training has that leads to a run's weights, the first training first."""
        recipe = self.recipe(run)
        if recipe.train is None:
            return ()
        own = recipe.train.epochs * recipe.train.tasks_per_epoch
        try:
            earlier = self.training_tasks(self._initial(run)) if recipe.init else ()
        except UserError:  # a user's own run, whose recipe is not among these
            earlier = ()
        return (*earlier, own) if own else earlier

    def has(self, run: PlannedRun) -> bool:
        """Whether there is a recipe for a run."""
        return self._found(run) is not None

    def make(self, run: PlannedRun) -> Path:
        """The directory of a finished run; what it needs is made first."""
        recipe = with_dim(self.recipe(run))
        directory = self.runs / recipe.name
        there = RunDirectory(directory)
        recorded = recorded_recipe(recipe, self.runs)
        if there.state == "finished" and read_recipe(directory / RECIPE) != recorded:
            raise UserError(
                f"{directory} was made with other settings than this study asks for; give the same --set "
                "as then, or another directory with --runs"
            )
        anew = self._outdated(there, recipe)
        if there.state == "finished" and not anew:
            return directory
        released = self._released(recipe, directory)
        if released is not None:
            self.echo(f"released with fewset, not trained anew: {recipe.name}")
            copy_model(released, directory)
            evaluate_run(directory, device=self.device)
            return directory
        if recipe.init and RunDirectory(self.runs / recipe.init).state != "finished":
            self.make(self._initial(run))
        self.echo(f"{recipe.kind}: {recipe.name}")
        execute(
            recipe,
            recipe.kind,
            directory,
            resume=not anew,
            force=anew,
            device=self.device,
            echo=self.echo,
            log_to=self.log_to,
        )
        return directory

    def _outdated(self, there: RunDirectory, recipe: Recipe) -> bool:
        """Whether a run began with other data or weights than there are now, and is to be made anew.

        On a table of features that takes minutes. A training on images may have taken days, so that is for
        the user to throw away.
        """
        changed = "" if there.state == "new" else changes_since(there, recipe)
        if changed and recipe.model.takes != "features":
            raise UserError(f"{changed}; remove {there.path}, or give another directory with --runs")
        if changed:
            self.echo(f"{changed}: made anew")
        return bool(changed)

    def _released(self, recipe: Recipe, directory: Path) -> Path | None:
        """The released model of the very same recipe, unless the user's own training has begun."""
        model = released_models().get(recipe.name)
        if model is None or read_recipe(model / RECIPE) != recipe:
            return None
        return model if not directory.exists() or is_copy(directory, model) else None

    def _initial(self, run: PlannedRun) -> PlannedRun:
        """The run that another starts from: of the recipe with that name, beside its own or shipped."""
        path = self._file(run)
        init = read_recipe(path, self._overrides(path, run)).init
        released = [model / RECIPE for name, model in released_models().items() if name == init]
        for other in chain(list_recipes(path.parent), released, shipped_recipes().values()):
            if read_recipe(other).name == init:
                tag = run.tag if run.data_changes else ""
                return PlannedRun(str(other), tag=tag, changes=run.data_changes)
        raise UserError(
            f"{path} starts from {init!r}, but there is neither such a run in {self.runs} nor such a recipe "
            f"beside {path.name} or with fewset"
        )

    def _file(self, run: PlannedRun) -> Path:
        path = self._found(run)
        if path is None:
            raise UserError(
                f"there is no recipe for {run.method!r} on {run.on or self.on!r}; --on is how the names of "
                "recipes begin, such as strokes, miniimagenet/conv4 or a directory with your own"
            )
        return path

    def _found(self, run: PlannedRun) -> Path | None:
        """The recipe of a method: one of its own for the number of shots, where there is one."""
        endings = [f"-{run.shot}shot", ""] if run.shot is not None else ["", "-1shot"]
        names = [f"{run.on or self.on}{join}{run.method}{ending}" for join in "/-" for ending in endings]
        if Path(run.method).suffix == ".toml":  # the path of a recipe
            names = [run.method]
        return next(filter(None, map(recipe_path, names)), None)

    def _overrides(self, path: Path, run: PlannedRun) -> list[str]:
        """The user's changes that concern a recipe: not those of the other stage, and only those of the
        training where it is on other data. A baseline of 0 epochs stays one.
        """
        recipe = read_recipe(path)
        untrained = recipe.train is not None and recipe.train.epochs == 0
        tables = (f"{recipe.kind}.", *(() if run.on else _SHARED))
        return [
            override
            for override in self.overrides
            if override.startswith(tables) and not (untrained and override.startswith("train.epochs="))
        ]
