"""The tables, figures and ablations of the paper."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fewset.cli.options import (
    RUNS,
    DeviceOption,
    LogToOption,
    PluginOption,
    RunsOption,
    SetOption,
    counted,
    options_of,
    start,
)
from fewset.cli.output import console, echo, make_table, resumable
from fewset.core.errors import UserError, refuse_unknown

PANEL = "Paper"
commands = typer.Typer()


def _study(
    ablations: bool,
    name: str | None,
    features: str | None = None,
    draw: bool = False,
    on: Annotated[str, typer.Option(help="How the recipes' names begin, as miniimagenet/conv4.")] = "strokes",
    overrides: SetOption = None,
    runs: RunsOption = RUNS,
    out: Annotated[Path, typer.Option(help="Where the records, tables and figures go.")] = Path("paper"),
    pages: Annotated[Path | None, typer.Option(help="Another directory for Markdown and PNG.")] = None,
    tasks: Annotated[int | None, counted("Tasks of a number; default: the recipe's.", least=2)] = None,
    log_to: LogToOption = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Make a study of the paper, or one of its ablations; without a name, list them."""
    start(plugin)
    from fewset.paper.ablations import ABLATIONS
    from fewset.paper.catalogue import STUDIES
    from fewset.paper.render import render_study, study_tables
    from fewset.paper.runner import StudyRunner, run_study
    from fewset.paper.study import read_study
    from fewset.report.tables import plain_text

    studies = ABLATIONS if ablations else STUDIES
    if name is None:
        table = make_table("name", "what it shows")
        for each, study_of in studies.items():
            table.add_row(each, (study_of.__doc__ or "").splitlines()[0])
        console.print(table)
        return
    refuse_unknown("study", name, studies)
    directory, shown = out / name, None if pages is None else pages / name
    file = directory / f"{name}.json"
    pictures: list[Path] = []
    if draw:
        study = read_study(file)
    else:
        runner = StudyRunner(on, runs, overrides or [], tasks, features, device, echo, log_to or ())
        with resumable("the same command continues from here"):
            plan = studies[name](runner)
            study = run_study(name, plan, runner, file)
            pictures = plan.pictures(directory, shown)
    written = [file, *render_study(study, directory, shown), *pictures]
    for each_table in study_tables(study):
        echo(plain_text(each_table))
    echo(f"written: {', '.join(map(str, written))}")


@commands.command()
@options_of(_study)
def paper(
    name: Annotated[str | None, typer.Argument(help="A table or figure; without one, lists all.")] = None,
    features: Annotated[
        str | None, typer.Option(help="low-shot: a table of features; default: the set's embeddings.")
    ] = None,
    draw: Annotated[bool, typer.Option("--draw", help="Only draw what the study's file holds.")] = False,
    **options: Any,
) -> None:
    """A table or figure of the paper: makes the runs that are missing, and continues where it was stopped.

    Example: `fewset paper transductive --on strokes`
    """
    if features is not None and name != "low-shot":
        raise UserError("--features is an option of low-shot alone; leave it out")
    _study(False, name, features, draw, **options)


@commands.command()
@options_of(_study)
def ablate(
    name: Annotated[str | None, typer.Argument(help="An ablation; without one, lists all.")] = None,
    **options: Any,
) -> None:
    """An ablation of the paper: runs its grid, continues where it was stopped, writes the table.

    Example: `fewset ablate heads --on strokes`
    """
    _study(True, name, **options)
