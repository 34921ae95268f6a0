"""Make a study: every number is written to its file as soon as it is there.

What is finished is taken as it is. So a study that was stopped goes on where it stopped, and studies that
share runs share the work. What a reader sees is drawn from the study's file alone (`fewset.paper.render`).
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from fewset.experiments.evaluate import Result, command_line, evaluate_run
from fewset.paper.plan import Entry, Plan
from fewset.paper.runner import StudyRunner
from fewset.paper.study import Cell, Study, read_study, write_study

SOURCE = "source"  # the field of a cell's result that says what it was made from


def run_study(name: str, plan: Plan, runner: StudyRunner, file: Path) -> Study:
    """Make what is missing in the study's file, number by number."""
    there = (
        {(cell.panel, cell.row, cell.column): cell for cell in read_study(file).cells}
        if file.exists()
        else {}
    )
    study = _empty(name, plan, runner)
    scored: dict[str, Result] = {}
    for number, entry in enumerate(plan.entries, start=1):
        source = _source(entry, runner)
        cell = there.get(entry.place)
        if cell is None or cell.result.get(SOURCE) != source:
            key = json.dumps(source, sort_keys=True)
            if key not in scored:
                tasks: dict[str, Any] = {**runner.tasks, **entry.tasks}
                runner.echo(f"[{number}/{len(plan.entries)}] {name}: {', '.join(filter(None, entry.place))}")
                scored[key] = evaluate_run(
                    runner.make(entry.run),
                    setting=entry.setting,
                    options=entry.options,
                    **tasks,
                )
            cell = _cell(entry, scored[key] | {SOURCE: source})
        study = replace(study, cells=(*study.cells, cell))
        write_study(study, file)
    return study


def _source(entry: Entry, runner: StudyRunner) -> dict[str, Any]:
    """What a number comes from: one in the file is taken again when this has not changed."""
    return {
        "run": runner.recipe(entry.run).name,
        "overrides": list(runner.overrides),
        "setting": entry.setting,
        "options": dict(entry.options),
        "tasks": {**runner.tasks, **entry.tasks},
    }


def _cell(entry: Entry, result: Result) -> Cell:
    score = (
        result["before"]
        if entry.score == "before"
        else result["scores"][entry.score]
        if entry.score
        else result
    )
    return Cell(*entry.place, mean=score["mean"], ci95=score["ci95"], result=result)


def _empty(name: str, plan: Plan, runner: StudyRunner) -> Study:
    panels, rows, columns = (
        tuple(dict.fromkeys(labels)) for labels in zip(*(entry.place for entry in plan.entries), strict=True)
    )
    recipe = runner.recipe(plan.entries[-1].run)
    return Study(
        name=name,
        title=plan.title,
        data=recipe.data.set,
        backbone=recipe.model.backbone,
        layout=plan.layout,
        corner=plan.corner,
        columns_title=plan.columns_title,
        panels=panels,
        rows=rows,
        columns=columns,
        column_keys=tuple(plan.column_keys.get(column, column) for column in columns),
        command=command_line(),
        cells=(),
        notes=plan.notes,
    )
