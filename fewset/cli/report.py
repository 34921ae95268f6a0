"""Pages made from the results of runs."""

from pathlib import Path
from typing import Annotated

import typer

from fewset.cli.output import echo

PANEL = "Experiments"
commands = typer.Typer()


@commands.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.")],
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("report"),
) -> None:
    """One self-contained HTML page with tables and plots, and their files.

    Example: `fewset report runs/strokes-protonet runs/strokes-feat --out report`
    """
    from fewset.report.page import build_report

    echo(f"report: {build_report(runs, out)}")


@commands.command()
def results(
    directory: Annotated[Path, typer.Argument(help="The collection.")],
    pages: Annotated[
        Path | None, typer.Option(help="Another directory for the page, its notes and its pictures.")
    ] = None,
    add: Annotated[list[Path] | None, typer.Option(help="A finished run to keep; repeatable.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Only check that the page is up to date.")] = False,
) -> None:
    """Keep the results of runs, and make the page of a collection from its files.

    Example: `fewset results my-results --add runs/strokes-feat`
    """
    from fewset.paper.numbers import with_paper
    from fewset.report.collection import keep, make_page

    for kept in keep(add or [], directory):
        echo(f"kept: {kept}")
    made = make_page(directory, pages, check, with_paper)
    echo("the page is up to date" if check else f"page: {made}")
