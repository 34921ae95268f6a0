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
)
from fewset.cli.output import console, echo, make_table, resumable
from fewset.cli.start import start
from fewset.core.errors import UserError, refuse_unknown

PANEL = "Paper"
METHODS = "methods"
commands = typer.Typer()


def _study(
    ablations: bool,
    name: str | None,
    features: str | None = None,
    draw: bool = False,
    on: Annotated[
        str,
        typer.Option(
            help="Which recipes: the beginning of their names, such as strokes or miniimagenet/conv4."
        ),
    ] = "strokes",
    overrides: SetOption = None,
    runs: RunsOption = RUNS,
    out: Annotated[Path, typer.Option(help="Where the records, tables and figures go.")] = Path("paper"),
    pages: Annotated[
        Path | None,
        typer.Option(help="Another directory for what a page of documentation shows: Markdown and PNG."),
    ] = None,
    tasks: Annotated[
        int | None, counted("How many tasks a number is over; default: the recipe's.", least=2)
    ] = None,
    log_to: LogToOption = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Make a study of the paper, or one of its ablations; without a name, list them."""
    start(plugin)
    from fewset.paper.catalogue import ABLATIONS, STUDIES
    from fewset.paper.make import run_study
    from fewset.paper.render import render_study, study_tables
    from fewset.paper.runner import StudyRunner
    from fewset.paper.study import read_study
    from fewset.report.tables import plain_text

    studies = ABLATIONS if ablations else STUDIES
    if name is None:
        table = make_table("name", "what it shows")
        for each, study in studies.items():
            table.add_row(each, (study.__doc__ or "").splitlines()[0])
        if not ablations:
            table.add_row(METHODS, "Every method on one set of embeddings.")
        console.print(table)
        return
    refuse_unknown("study", name, studies if ablations else (*studies, METHODS))
    file = out / name / f"{name}.json"
    shown = None if pages is None else pages / name
    pictures: list[Path] = []
    if not draw:
        runner = StudyRunner(on, runs, overrides or [], tasks, features, device, echo, log_to or ())
        with resumable("the same command goes on from here"):
            plan = studies[name](runner)
            run_study(name, plan, runner, file)
            pictures = plan.pictures(file.parent, shown)
    written = [*render_study(file, shown), *pictures]
    for shown_table in study_tables(read_study(file)):
        echo(plain_text(shown_table))
    echo("written: " + ", ".join(str(path) for path in (file, *written)))


@commands.command()
@options_of(_study)
def paper(
    name: Annotated[
        str | None, typer.Argument(help="A table or figure; without one, all of them are listed.")
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(help="A table of features; low-shot's default: the set as its backbone embeds it."),
    ] = None,
    draw: Annotated[
        bool, typer.Option("--draw", help="Only draw what the study's file already holds.")
    ] = False,
    times: Annotated[
        bool, typer.Option("--times", help="Methods: measure how long each takes, too.")
    ] = False,
    without: Annotated[
        list[str] | None, typer.Option(help="Methods: leave this row out, such as PMN. Repeatable.")
    ] = None,
    **options: Any,
) -> None:
    """A table or figure of the paper: makes the runs that are missing, goes on where it was stopped.

    Example: `fewset paper transductive --on strokes`
    """
    if features is not None and name not in ("low-shot", METHODS):
        raise UserError(
            f"--features is not an option of {name or 'the list'}; leave it out, or take low-shot or methods"
        )
    if (times or without) and name != METHODS:
        raise UserError(f"--times and --without are options of {METHODS} alone; leave them out")
    if name == METHODS:
        _methods(features, draw, times, without or [], **options)
    else:
        _study(False, name, features, draw, **options)


def _methods(
    features: str | None,
    draw: bool,
    times: bool,
    without: list[str],
    *,
    on: str,
    overrides: list[str] | None,
    runs: Path,
    out: Path,
    pages: Path | None,
    tasks: int | None,
    device: str,
    log_to: list[str] | None,
    plugin: list[Path] | None,
) -> None:
    """Every method on one set of embeddings: a study of heads rather than of recipes."""
    start(plugin)
    from fewset.compute.devices import pick_device
    from fewset.data.features.table import list_features
    from fewset.paper.method_tables import methods_tables, render_methods
    from fewset.report.tables import plain_text

    if (on, overrides, runs, log_to) != ("strokes", None, RUNS, None):
        raise UserError(
            "methods are compared on a table of features; leave out --on, --set, --runs and --log-to"
        )
    if features is None:
        there = ", ".join(list_features()) or "none yet"
        raise UserError(
            f"name a table of features with --features (here: {there}); `fewset embed RUN --val --out "
            "FILE.npz` and `fewset data import features FILE.npz` make one"
        )
    place = out / METHODS / features
    if not draw:
        from fewset.paper.method_embeddings import Embeddings
        from fewset.paper.method_measure import measure_methods, time_methods
        from fewset.paper.method_rows import method_rows

        embeddings, rows = Embeddings.open(features, pick_device(device)), method_rows(without)
        with resumable("the same command goes on from here"):
            record = measure_methods(rows, embeddings, place, tasks or 10_000, echo)
            if times:
                time_methods(rows, embeddings, record, place, echo)
    written = render_methods(place, None if pages is None else pages / METHODS / features)
    for shown in methods_tables(place):
        echo(plain_text(shown))
    echo("written: " + ", ".join(str(path) for path in written))


@commands.command()
@options_of(_study)
def ablate(
    name: Annotated[
        str | None, typer.Argument(help="An ablation; without one, all of them are listed.")
    ] = None,
    **options: Any,
) -> None:
    """An ablation of the paper: runs its grid, goes on where it was stopped, writes the table.

    Example: `fewset ablate heads --on strokes`
    """
    _study(True, name, **options)
