"""Scores of runs on tasks, their differences, and the pages made from them.

`eval` has options that all settings share, and the fields of the protocols (`fewset.evaluation.protocols`).
These are collected when the command starts, since a plugin may add a protocol.
"""

import inspect
import json
import os
from collections.abc import Callable
from dataclasses import asdict, fields
from itertools import pairwise
from pathlib import Path
from pkgutil import iter_modules
from typing import Annotated, Any, Literal, get_type_hints

import typer
from typer.core import TyperCommand
from typer.main import get_command

from fewset.cli.options import PLUGINS, RUNS, DeviceOption, JsonOption, PluginOption, counted, start
from fewset.cli.output import echo, print_result
from fewset.core.errors import UserError
from fewset.core.names import shortened
from fewset.core.parsing import whole_number

PANEL = "Experiments"
commands = typer.Typer()
# The names of the files, without importing them, so that help is quick.
_FILES = iter_modules([str(Path(__file__).parents[1] / "evaluation" / "protocols")])
_SETTINGS = ", ".join(module.name.replace("_", "-") for module in _FILES)


class SettingCommand(TyperCommand):
    """`eval`, whose help shows the options of the chosen setting in a separate section."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        files = _words_after("--plugin", args) or os.environ.get(PLUGINS, "").split(os.pathsep)
        start(Path(file) for file in files if file)
        alone = typer.Typer(add_completion=False)
        alone.command("eval")(_with_options(evaluate, next(iter(_words_after("--setting", args)), "")))
        command = get_command(alone)
        self.params, self.callback = command.params, command.callback
        return super().parse_args(ctx, args)


def _words_after(option: str, words: list[str]) -> list[str]:
    joined = [word.partition("=")[2] for word in words if word.startswith(f"{option}=")]
    return joined + [value for word, value in pairwise(words) if word == option]


def _with_options(function: Callable[..., None], chosen: str) -> Callable[..., None]:
    """The command with an option for each field of each protocol; only those of the chosen one are shown."""
    from fewset.evaluation.protocols import PROTOCOLS

    shared = [one for one in inspect.signature(function).parameters.values() if one.name != "options"]
    taken = {parameter.name for parameter in shared}
    own = []
    for name in sorted(PROTOCOLS, key=lambda name: name != chosen):
        hints = get_type_hints(PROTOCOLS[name])
        for field in fields(PROTOCOLS[name]):  # type: ignore[arg-type]
            if field.name not in taken:
                taken.add(field.name)
                words = field.default if isinstance(field.default, tuple) else (field.default,)
                default = "" if field.default is None else f" Default: {','.join(map(str, words))}."
                option = typer.Option(
                    f"--{field.name.replace('_', '-')}",
                    help=f"{field.metadata['help']}{default}",
                    hidden=name != chosen,
                    rich_help_panel=f"Options of the setting {name}",
                )
                kind = bool | None if hints[field.name] is bool else str | None
                parameter = inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY)
                own.append(parameter.replace(default=None, annotation=Annotated[kind, option]))

    def command(**words: Any) -> None:
        options = {field.name: words.pop(field.name) for field in own}
        function(**words, options={key: value for key, value in options.items() if value is not None})

    shared = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in shared]
    command.__signature__ = inspect.Signature([*shared, *own])  # type: ignore[attr-defined]
    command.__doc__ = function.__doc__
    return command


@commands.command("eval", cls=SettingCommand)
def evaluate(
    run: Annotated[Path, typer.Argument(help="A run directory, or the name of a released model.")],
    data: Annotated[str | None, typer.Option(help="An imported set, or a table of features.")] = None,
    split: Annotated[str | None, typer.Option(help="train, val or test.")] = None,
    domain: Annotated[str | None, typer.Option(help="One domain of the set.")] = None,
    way: Annotated[int | None, typer.Option(help="Classes in a task.")] = None,
    shot: Annotated[int | None, typer.Option(help="Labelled items a class.")] = None,
    query: Annotated[
        str | None, typer.Option(help="Queries a class; auto: as many as there are, up to the recipe's.")
    ] = None,
    tasks: Annotated[int | None, typer.Option(help="How many tasks; low-shot: trials.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the tasks.")] = None,
    related: Annotated[
        int | None, counted("A class and others of its N nearest (`fewset data relate`).", least=0)
    ] = None,
    skip_small_classes: Annotated[
        bool, typer.Option("--skip-small-classes", help="Leave out classes with too few items.")
    ] = False,
    setting: Annotated[
        str | None, typer.Option(help=f"{_SETTINGS}, or a plugin's. `--setting NAME --help` has its options.")
    ] = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
    as_json: JsonOption = False,
    # Made by `_with_options`; typer before 0.29 knows no type for it.
    options: Annotated[Any, typer.Option(hidden=True, parser=str)] = None,
) -> None:
    """Score a run on sampled tasks; options that are not given come from its recipe.

    A released model is copied to `runs/NAME` first, and its results go there.

    Example: `fewset eval runs/strokes-feat --way 10 --shot 5`
    """
    start(plugin)
    from fewset.experiments.score_run import evaluate_run
    from fewset.experiments.weights import run_of

    result, file = evaluate_run(
        run_of(run, RUNS),
        setting=setting,
        options=options,
        data=data,
        split=split,
        domain=domain,
        way=way,
        shot=shot,
        query=_number_of_queries(query),
        tasks=tasks,
        seed=seed,
        related=related,
        skip_small_classes=skip_small_classes,
        device=device,
    )
    if as_json:
        print(json.dumps(asdict(result), indent=2))
    else:
        if query == "auto":
            echo(f"queries a class: {result.query}")
        print_result(result)
        echo(f"result: {file}")


def _number_of_queries(word: str | None) -> int | Literal["auto"] | None:
    if word is None:
        return None
    if word == "auto":
        return "auto"
    number = whole_number(word)
    if number is None:
        raise UserError(f"--query is {shortened(word)!r}, expected a number of queries a class, or auto")
    return number


@commands.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Two or more runs; the first is the baseline.")],
) -> None:
    """Paired differences on the same tasks, with their intervals.

    Example: `fewset compare runs/strokes-protonet runs/strokes-feat`
    """
    from fewset.report.loading import load_results
    from fewset.report.tables import comparison_table, plain_text

    if len(runs) < 2:
        raise UserError(f"compare needs two or more runs, got {len(runs)}")
    echo(plain_text(comparison_table(load_results(runs), baseline=0)))


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
    pages: Annotated[Path | None, typer.Option(help="Where the page, notes and pictures are.")] = None,
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
