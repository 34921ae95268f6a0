"""Make a study: every number is written to its file as soon as it is there.

What is finished is taken as it is, as long as it was made of the same recipe, weights and data as are there
now. So a study that was stopped goes on where it stopped, and studies that share runs share the work. What a
reader sees is drawn from the study's file alone (`fewset.paper.render`).
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from fewset.experiments.build import with_dim
from fewset.experiments.recipes import recipe_digest
from fewset.experiments.result import Result, command_line
from fewset.experiments.run_directory import WEIGHTS, RunDirectory
from fewset.experiments.score_run import evaluate_run
from fewset.io.files import file_digest
from fewset.paper.runner import StudyRunner
from fewset.paper.study import PlannedNumber, Study, StudyNumber, StudyPlan, read_study, write_study


def run_study(name: str, plan: StudyPlan, runner: StudyRunner, file: Path) -> Study:
    """Make what is missing in the study's file, or was made of something else, number by number."""
    there = {number.place: number for number in read_study(file).numbers} if file.exists() else {}
    study = _empty(name, plan, runner)
    scored: dict[str, Result] = {}
    for count, planned in enumerate(plan.numbers, start=1):
        source = _source(planned, runner)
        number = there.get(planned.place)
        if number is None or number.source != source or not _bound(number.result, planned, runner):
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


def _source(planned: PlannedNumber, runner: StudyRunner) -> dict[str, Any]:
    """What a number is asked to come from; one in the file that came from something else is made anew."""
    recipe = runner.recipe(planned.run)
    return {
        "run": recipe.name,
        "recipe": recipe_digest(with_dim(recipe)),
        "setting": planned.setting,
        "options": dict(planned.options),
        "tasks": {**runner.tasks, **planned.tasks},
    }


def _bound(result: Result, planned: PlannedNumber, runner: StudyRunner) -> bool:
    """Whether a number in the file was made of the weights and the data that are there now.

    Where the run, or the set, is not there, nothing speaks against it.
    """
    run = RunDirectory(runner.directory(planned.run))
    if run.state == "finished" and file_digest(run.path / WEIGHTS) != result.weights_digest:
        return False
    return runner.data_digest(planned.run) in (None, result.data_digest)


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
