"""Scores of runs on tasks, and their differences."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fewset.cli.options import (
    RUNS,
    DeviceOption,
    JsonOption,
    PluginOption,
    RunArgument,
)
from fewset.cli.output import echo, print_result
from fewset.cli.start import start
from fewset.runtime.errors import UserError

PANEL = "Experiments"
commands = typer.Typer()


@commands.command("eval")
def evaluate(
    run: RunArgument,
    data: Annotated[
        str | None, typer.Option(help="An imported set, or a table of features; default: the recipe's.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="train, val or test; default: the recipe's.")] = None,
    domain: Annotated[str | None, typer.Option(help="One domain of the set.")] = None,
    way: Annotated[int | None, typer.Option(help="Classes in a task.")] = None,
    shot: Annotated[int | None, typer.Option(help="Labelled items a class.")] = None,
    query: Annotated[int | None, typer.Option(help="Queries a class.")] = None,
    tasks: Annotated[int | None, typer.Option(help="How many tasks; low-shot: trials.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the tasks.")] = None,
    setting: Annotated[
        str | None,
        typer.Option(
            help="standard (default), transductive, generalised or cross-domain; for a run on a table of "
            "features: low-shot."
        ),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(
            help="Transductive: dagger (default), dagger-adapted-queries, double-dagger, "
            "double-dagger-published or semi-protonet."
        ),
    ] = None,
    support_domain: Annotated[
        str | None, typer.Option(help="Cross-domain: where the labelled items are from.")
    ] = None,
    query_domain: Annotated[
        str | None, typer.Option(help="Cross-domain: where the queries are from.")
    ] = None,
    fixed_seen: Annotated[
        bool | None,
        typer.Option("--fixed-seen", help="Generalised: leave the prototypes of the seen classes unadapted."),
    ] = None,
    seen_query: Annotated[
        int | None, typer.Option(min=1, help="Generalised: queries a seen class; default: as --query.")
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(help="Generalised: what the constant maximises, harmonic (default) or combined."),
    ] = None,
    validation_tasks: Annotated[
        int | None,
        typer.Option(min=1, help="Generalised: tasks that the constant is chosen on; default: 600."),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            help="Low-shot: the probability that a query is of an unseen class (default: 0.8), or auto: "
            "chosen on the validation setup."
        ),
    ] = None,
    setup: Annotated[
        str | None,
        typer.Option(
            help="Low-shot: the classes of one setup, validation or test; default: all classes of the table."
        ),
    ] = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a run on sampled tasks; what is not given comes from its recipe.

    A released model is copied to `runs/NAME` first, and its results go there.

    Example: `fewset eval runs/strokes-feat --way 10 --shot 5`
    """
    from fewset.experiments.evaluate import evaluate_run
    from fewset.experiments.zoo import run_of

    start(plugin)
    directory = run_of(run, RUNS)
    given = {"way": way, "shot": shot, "query": query, "tasks": tasks, "seed": seed}
    numbers = {key: value for key, value in given.items() if value is not None}
    own = {
        "variant": variant,
        "support_domain": support_domain,
        "query_domain": query_domain,
        "fixed_seen": fixed_seen,
        "seen_query": seen_query,
        "objective": objective,
        "validation_tasks": validation_tasks,
        "prior": prior,
        "setup": setup,
    }
    options = {key: value for key, value in own.items() if value is not None}
    result = evaluate_run(
        directory,
        setting=setting,
        options=options,
        data=data,
        split=split,
        domain=domain,
        device=device,
        **numbers,
    )
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        print_result(result)
        if directory != run:
            echo(f"run: {directory}")


@commands.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Two or more runs; the first is the baseline.")],
) -> None:
    """Paired differences on the same tasks, with their intervals.

    Example: `fewset compare runs/strokes-protonet runs/strokes-feat`
    """
    from fewset.report.results import read_results
    from fewset.report.tables import comparison_table, plain_text

    if len(runs) < 2:
        raise UserError(f"compare needs two or more runs, got {len(runs)}")
    echo(plain_text(comparison_table(read_results(runs), baseline=0)))
