"""The tables, figures and ablations of the paper."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fewset.cli.options import (
    RUNS,
    PluginOption,
    RunsOption,
    SetOption,
)
from fewset.cli.output import console, echo
from fewset.cli.start import start
from fewset.runtime.errors import UserError, unknown_name

PANEL = "Paper"
commands = typer.Typer()

OnOption = Annotated[
    str,
    typer.Option(help="Which recipes: the beginning of their names, such as strokes or miniimagenet/conv4."),
]
StudyTasksOption = Annotated[
    int | None, typer.Option(min=2, help="How many tasks a number is over; default: the recipe's.")
]
StudyOutOption = Annotated[Path, typer.Option(help="Where the tables and figures go.")]


@commands.command()
def paper(
    name: Annotated[
        str | None, typer.Argument(help="A table or figure; without one, all of them are listed.")
    ] = None,
    on: OnOption = "strokes",
    overrides: SetOption = None,
    runs: RunsOption = RUNS,
    out: StudyOutOption = Path("paper"),
    tasks: StudyTasksOption = None,
    features: Annotated[
        str | None,
        typer.Option(help="Low-shot: a table of features; default: the set as its backbone embeds it."),
    ] = None,
    draw: Annotated[
        bool, typer.Option("--draw", help="Only draw what the study's file already holds.")
    ] = False,
    plugin: PluginOption = None,
) -> None:
    """A table or figure of the paper: makes the runs that are missing, goes on where it was stopped.

    Example: `fewset paper transductive --on strokes`
    """
    from fewset.paper.catalogue import STUDIES

    if name is None:
        _list_studies(STUDIES)
    elif features is not None and name != "low-shot":
        raise UserError(f"--features is not an option of {name}; leave it out, or take low-shot")
    else:
        _study(name, STUDIES, on, overrides, runs, out, tasks, plugin, features, draw)


@commands.command()
def ablate(
    name: Annotated[
        str | None, typer.Argument(help="An ablation; without one, all of them are listed.")
    ] = None,
    on: OnOption = "strokes",
    overrides: SetOption = None,
    runs: RunsOption = RUNS,
    out: StudyOutOption = Path("paper"),
    tasks: StudyTasksOption = None,
    plugin: PluginOption = None,
) -> None:
    """An ablation of the paper: runs its grid, goes on where it was stopped, writes the table.

    Example: `fewset ablate heads --on strokes`
    """
    from fewset.paper.catalogue import ABLATIONS

    if name is None:
        _list_studies(ABLATIONS)
    else:
        _study(name, ABLATIONS, on, overrides, runs, out, tasks, plugin)


def _list_studies(studies: dict[str, Any]) -> None:
    table = Table("name", "what it shows")
    for name, study in studies.items():
        table.add_row(name, (study.__doc__ or "").splitlines()[0])
    console.print(table)


def _study(
    name: str,
    studies: dict[str, Any],
    on: str,
    overrides: list[str] | None,
    runs: Path,
    out: Path,
    tasks: int | None,
    plugins: list[Path] | None,
    features: str | None = None,
    draw: bool = False,
) -> None:
    from fewset.paper.render import render_study, study_tables
    from fewset.paper.study import read_study
    from fewset.report.tables import plain_text

    if name not in studies:
        raise unknown_name("study", name, studies)
    file = out / name / f"{name}.json"
    pictures: list[Path] = []
    if not draw:
        from fewset.paper.make import run_study
        from fewset.paper.runner import StudyRunner

        start(plugins)
        runner = StudyRunner(on, runs, overrides or [], tasks, features, echo=echo)
        try:
            plan = studies[name](runner)
            run_study(name, plan, runner, file)
            pictures = plan.pictures(file.parent)
        except KeyboardInterrupt:
            echo("stopped; the same command goes on from here")
            raise
    written = [*render_study(file), *pictures]
    for table in study_tables(read_study(file)):
        echo(plain_text(table))
    echo("written: " + ", ".join(str(path) for path in (file, *written)))
