"""Make a study: resolve the recipes of its runs, make the runs that are missing, score them.

A number is written to the study's file as soon as it is known, and kept as long as the recipe, the weights
and the data behind it are the same. So a study that was stopped continues where it stopped, and studies that
share runs share the work. Tables and figures are drawn from the file alone (`fewset.paper.render`).
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from fewset.core.errors import UserError
from fewset.data.features.table import list_features
from fewset.data.images.store import ImageSet, list_sets, open_set
from fewset.experiments.build import open_data, with_dim
from fewset.experiments.config import Recipe
from fewset.experiments.recipes import (
    list_recipes,
    read_recipe,
    recipe_digest,
    recipe_path,
    recorded_recipe,
    shipped_recipes,
)
from fewset.experiments.result import Result, command_line
from fewset.experiments.run_directory import RECIPE, WEIGHTS, RunDirectory
from fewset.experiments.score_run import evaluate_run
from fewset.experiments.starting_weights import changes_since
from fewset.experiments.train_run import execute
from fewset.experiments.weights import copy_model, is_copy, released_models
from fewset.io.files import file_digest
from fewset.paper.study import (
    PlannedNumber,
    PlannedRun,
    Study,
    StudyNumber,
    StudyPlan,
    read_study,
    write_study,
)

_SHARED = ("data.", "model.", "evaluate.", "seed=")  # changes that concern both stages


class ResolvedRun(NamedTuple):
    """The recipe of a planned run, and the planned run that it starts from, if any."""

    recipe: Recipe
    start: PlannedRun | None


class StudyRunner:
    """Where a study is made: `on` is how the names of its recipes begin, "strokes" or "miniimagenet/conv4".

    `overrides` are the user's, for all runs; `tasks` the number of tasks, where it is not the recipe's;
    `features` a table of features, for the study that needs one; `log_to` are trackers of the trainings, by
    name. Every recipe is resolved once.
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
        self.log_to, self.overrides = log_to, tuple(overrides)
        for override in self.overrides:
            if not override.startswith((*_SHARED, "pretrain.", "train.")):
                raise UserError(
                    f"--set {override}: a study takes changes of the tables data, model, pretrain, train and "
                    "evaluate, and of the seed"
                )
        self.tasks = {} if tasks is None else {"tasks": tasks}
        self.resolve = cache(self._resolve)
        self._name_of = cache(lambda path: read_recipe(path).name)

    @cached_property
    def images(self) -> ImageSet:
        return open_set(self.recipe(PlannedRun("pretrain")).data.set)

    def recipe(self, run: PlannedRun) -> Recipe:
        """The recipe of a run with every change made; one that is changed has its own name."""
        return self.resolve(run).recipe

    def _resolve(self, run: PlannedRun) -> ResolvedRun:
        """The recipe of a run, and where it starts."""
        path = self._found(run)
        if path is None:
            raise UserError(
                f"there is no recipe for {run.method!r} on {run.on or self.on!r}; --on is how the names of "
                "recipes begin, such as strokes, miniimagenet/conv4 or a directory with your own"
            )
        overrides = self._overrides(read_recipe(path), run)
        plain = read_recipe(path, overrides)
        start = self._start(path, plain.init, run) if plain.init else None
        changes, tags = list(run.changes), [run.tag]
        if run.shot is not None and plain.train is not None and plain.train.shot != run.shot:
            changes += [f"train.shot={run.shot}", f"evaluate.shot={run.shot}"]
            tags.insert(0, f"{run.shot}shot")
        if start is not None and run.data_changes:
            changes.append(f"{plain.kind}.init={self.recipe(start).name}")
        recipe = read_recipe(path, [*overrides, *changes])
        if recipe != plain:
            recipe = replace(recipe, name="-".join([plain.name, *filter(None, tags)]))
        return ResolvedRun(recipe, start)

    def training_tasks(self, run: PlannedRun) -> tuple[int, ...]:
        """How many tasks each training has that leads to a run's weights, the first training first."""
        recipe, start = self.resolve(run)
        if recipe.train is None:
            return ()
        own = recipe.train.epochs * recipe.train.tasks_per_epoch
        earlier = () if start is None else self.training_tasks(start)
        return (*earlier, own) if own else earlier

    def has(self, run: PlannedRun) -> bool:
        """Whether there is a recipe for a run."""
        return self._found(run) is not None

    def make(self, run: PlannedRun) -> Path:
        """The directory of a finished run; what it needs is made first."""
        plain, start = self.resolve(run)
        recipe = with_dim(plain)
        directory = self.runs / recipe.name
        there = RunDirectory(directory)
        recorded = recorded_recipe(recipe, self.runs)
        if there.state == "finished" and read_recipe(directory / RECIPE) != recorded:
            raise UserError(
                f"{directory} was made with other settings than this study has; give the same --set as then, "
                "or another directory with --runs"
            )
        again = self._outdated(there, recipe)
        if there.state == "finished" and not again:
            return directory
        released = self._released(recipe, directory)
        if released is not None:
            self.echo(f"released with fewset: {recipe.name}")
            copy_model(released, directory)
            evaluate_run(directory, device=self.device)
            return directory
        if recipe.init and RunDirectory(self.runs / recipe.init).state != "finished":
            if start is None:
                raise UserError(
                    f"{recipe.name} starts from {recipe.init!r}, but there is neither such a run in "
                    f"{self.runs} nor such a recipe beside its own or with fewset"
                )
            self.make(start)
        self.echo(f"{recipe.kind}: {recipe.name}")
        options: dict[str, Any] = {"device": self.device, "echo": self.echo, "log_to": self.log_to}
        execute(recipe, recipe.kind, directory, resume=not again, force=again, **options)
        return directory

    def source(self, planned: PlannedNumber) -> dict[str, Any]:
        """What a number is made from; it stands beside the number in the study's file."""
        recipe = self.recipe(planned.run)
        return {
            "run": recipe.name,
            "recipe": recipe_digest(with_dim(recipe)),
            "setting": planned.setting,
            "options": dict(planned.options),
            "tasks": {**self.tasks, **planned.tasks},
        }

    def is_current(self, result: Result, run: PlannedRun) -> bool:
        """Whether a result was made from the weights and the data of now, as far as they are here."""
        recipe = self.recipe(run)
        there = RunDirectory(self.runs / recipe.name)
        if there.state == "finished" and file_digest(there.path / WEIGHTS) != result.weights_digest:
            return False
        if recipe.data.set not in (*list_sets(), *list_features()):
            return True
        return open_data(recipe.model, recipe.data.set).digest == result.data_digest

    def _outdated(self, there: RunDirectory, recipe: Recipe) -> bool:
        """Whether a run began with other data or weights than there are now, and is trained again.

        On a table of features that takes minutes. A training on images may have taken days: the user decides
        whether to remove it.
        """
        changed = "" if there.state == "new" else changes_since(there, recipe)
        if changed and recipe.model.takes != "features":
            raise UserError(f"{changed}; remove {there.path}, or give another directory with --runs")
        if changed:
            self.echo(f"{changed}: it is trained again")
        return bool(changed)

    def _released(self, recipe: Recipe, directory: Path) -> Path | None:
        """The released model of the very same recipe, unless the user's own training has begun."""
        model = released_models().get(recipe.name)
        if model is None or read_recipe(model / RECIPE) != recipe:
            return None
        return model if not directory.exists() or is_copy(directory, model) else None

    def _start(self, path: Path, init: str, run: PlannedRun) -> PlannedRun | None:
        """The run called `init`: of a recipe beside `path`, a released model, or a shipped recipe."""
        released = [model / RECIPE for name, model in released_models().items() if name == init]
        for other in chain(list_recipes(path.parent), released, shipped_recipes().values()):
            if self._name_of(other) == init:
                tag = run.tag if run.data_changes else ""
                return PlannedRun(str(other), tag=tag, changes=run.data_changes)
        return None

    def _found(self, run: PlannedRun) -> Path | None:
        """The path of a method's recipe; one for the number of shots comes first."""
        endings = [f"-{run.shot}shot", ""] if run.shot is not None else ["", "-1shot"]
        names = [f"{run.on or self.on}{join}{run.method}{ending}" for join in "/-" for ending in endings]
        if Path(run.method).suffix == ".toml":  # the path of a recipe
            names = [run.method]
        return next(filter(None, map(recipe_path, names)), None)

    def _overrides(self, recipe: Recipe, run: PlannedRun) -> list[str]:
        """The user's changes that concern a recipe: not those of the other stage, and only those of the
        training where it is on other data. A baseline of 0 epochs stays one.
        """
        untrained = recipe.train is not None and recipe.train.epochs == 0
        tables = (f"{recipe.kind}.", *(() if run.on else _SHARED))
        return [
            override
            for override in self.overrides
            if override.startswith(tables) and not (untrained and override.startswith("train.epochs="))
        ]


def run_study(name: str, plan: StudyPlan, runner: StudyRunner, file: Path) -> Study:
    """Make the numbers that are missing in the study's file, or were made from something else."""
    plan.prepare()
    there = {number.place: number for number in read_study(file).numbers} if file.exists() else {}
    study = _empty(name, plan, runner)
    scored: dict[str, Result] = {}
    for count, planned in enumerate(plan.numbers, start=1):
        source, number = runner.source(planned), there.get(planned.place)
        if number is None or number.source != source or not runner.is_current(number.result, planned.run):
            key = json.dumps(source, sort_keys=True)
            if key not in scored:
                place = ", ".join(filter(None, planned.place))
                runner.echo(f"[{count}/{len(plan.numbers)}] {name}: {place}")
                run, setting, options = runner.make(planned.run), planned.setting, planned.options
                scored[key], _ = evaluate_run(
                    run, setting=setting, options=options, device=runner.device, **source["tasks"]
                )
            number = StudyNumber(*planned.place, planned.score, source, scored[key])
        study = replace(study, numbers=(*study.numbers, number))
        write_study(study, file)
    return study


def _empty(name: str, plan: StudyPlan, runner: StudyRunner) -> Study:
    panels, rows, columns = (
        tuple(dict.fromkeys(labels)) for labels in zip(*(each.place for each in plan.numbers), strict=True)
    )
    recipe = runner.recipe(plan.numbers[-1].run)
    return Study(
        name=name,
        title=plan.title,
        data=recipe.data.set,
        backbone=recipe.model.backbone,
        style=plan.style,
        corner=plan.corner,
        columns_title=plan.columns_title,
        panels=panels,
        rows=rows,
        columns=columns,
        column_keys=tuple(plan.column_keys.get(column, column) for column in columns),
        command=command_line(),
        numbers=(),
        notes=(*plan.notes, *_training_note(plan, runner)),
        blank=len(panels) * len(rows) * len(columns) - len(plan.numbers),
    )


def _training_note(plan: StudyPlan, runner: StudyRunner) -> list[str]:
    """On how many tasks the rows were trained, where these differ."""
    trained: dict[str, dict[str, None]] = {}
    for number in plan.numbers:
        tasks = " + ".join(f"{each:,}" for each in runner.training_tasks(number.run)) or "none"
        trained.setdefault(number.row, {})[tasks] = None
    if len({tuple(tasks) for tasks in trained.values()}) < 2:
        return []
    rows = "; ".join(f"{row} {' or '.join(tasks)}" for row, tasks in trained.items())
    return [
        f"Training tasks, first those of the runs that a row starts from: {rows}. Rows that differ here "
        "were not trained equally."
    ]
