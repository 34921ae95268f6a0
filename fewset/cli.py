"""The command line: thin. It turns words into objects, calls the library, and prints what comes back."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fewset import __version__
from fewset.errors import UserError

app = typer.Typer(
    name="fewset",
    help="Few-shot image recognition by adapting embeddings with set-to-set functions (FEAT).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Import image sets and look at them.", no_args_is_help=True)
app.add_typer(data_app, name="data")
console = Console(highlight=False, soft_wrap=True)

RecipeArgument = Annotated[str, typer.Argument(help="A TOML file, or the name of a shipped recipe.")]
RunArgument = Annotated[Path, typer.Argument(help="A run directory.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe; repeatable.")
]
RunsOption = Annotated[Path, typer.Option(help="Where run directories live; --out overrides it.")]
OutOption = Annotated[Path | None, typer.Option(help="The run directory; default: RUNS/NAME of the recipe.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint, if there is one.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Start anew over an existing run.")]
PluginOption = Annotated[
    list[Path] | None,
    typer.Option(
        envvar="FEWSET_PLUGINS", help="A Python file with your own adapters; it is executed. Repeatable."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def main() -> None:
    """Entry point: a user's error is one line and exit code 2; anything else keeps its traceback."""
    try:
        app()
    except UserError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"[red]error:[/red] {_escape(str(error))}")
        sys.exit(2)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _start(plugins: list[Path] | None = None) -> None:
    """What every command that computes does first."""
    from fewset.machine import tune

    tune()
    for plugin in plugins or []:
        from fewset.plugins import load_plugin

        load_plugin(plugin)


def _version(value: bool) -> None:
    if value:
        console.print(f"fewset {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None: ...


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the runs and the report go.")] = Path("fewset-demo"),
) -> None:
    """From nothing to a report: pre-train, meta-train ProtoNet and FEAT, 10,000 tasks each.

    Example: `fewset demo --out demo`
    """
    from fewset.demo import demo as run_demo
    from fewset.report.tables import plain_text

    _start()
    page, table = run_demo(out, console.print)
    console.print(plain_text(table))
    console.print(f"report: {page}")


def _execute(
    kind: Any, recipe: str, overrides: list[str] | None, runs: Path, out: Path | None, resume: bool, force: bool
) -> None:
    from fewset.recipes import find_recipe, read_recipe
    from fewset.runs import execute

    parsed = read_recipe(find_recipe(recipe), overrides or [])
    directory = out or runs / parsed.name
    result = execute(parsed, kind, directory, resume=resume, force=force)
    _print_result(result)
    console.print(f"run: {directory}")


def _print_result(result: dict[str, Any]) -> None:
    before = result["before"]
    if before:
        console.print(f"before adaptation: {100 * before['mean']:.2f} ± {100 * before['ci95']:.2f} %")
    console.print(
        f"{result['method']} on {result['data']}/{result['split']}, {result['way']}-way {result['shot']}-shot, "
        f"{result['tasks']:,} tasks: {100 * result['mean']:.2f} ± {100 * result['ci95']:.2f} %"
    )


@app.command()
def pretrain(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    runs: RunsOption = Path("runs"),
    out: OutOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
) -> None:
    """Train a backbone to classify the classes of the train split.

    Example: `fewset pretrain strokes/pretrain --set pretrain.epochs=10`
    """
    _start()
    _execute("pretrain", recipe, overrides, runs, out, resume, force)


@app.command()
def train(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    runs: RunsOption = Path("runs"),
    out: OutOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    plugin: PluginOption = None,
) -> None:
    """Meta-train a whole model on sampled tasks.

    Example: `fewset train strokes/feat --set train.shot=5 --out runs/feat-5shot`
    """
    _start(plugin)
    _execute("train", recipe, overrides, runs, out, resume, force)


@app.command("eval")
def evaluate(
    run: RunArgument,
    data: Annotated[str | None, typer.Option(help="An imported set; default: the recipe's.")] = None,
    split: Annotated[str | None, typer.Option(help="train, val or test; default: the recipe's.")] = None,
    domain: Annotated[str | None, typer.Option(help="One domain of the set.")] = None,
    way: Annotated[int | None, typer.Option(help="Classes in a task.")] = None,
    shot: Annotated[int | None, typer.Option(help="Labelled items a class.")] = None,
    query: Annotated[int | None, typer.Option(help="Queries a class.")] = None,
    tasks: Annotated[int | None, typer.Option(help="How many tasks.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the tasks.")] = None,
    plugin: PluginOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a run on sampled tasks; what is not given comes from its recipe.

    Example: `fewset eval runs/strokes-feat --way 10 --shot 5`
    """
    from fewset.results import evaluate_run

    _start(plugin)
    given = {"way": way, "shot": shot, "query": query, "tasks": tasks, "seed": seed}
    numbers = {key: value for key, value in given.items() if value is not None}
    result = evaluate_run(run, data=data, split=split, domain=domain, **numbers)
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        _print_result(result)


@app.command()
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
    console.print(plain_text(comparison_table(read_results(runs), baseline=0)))


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.")],
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("report"),
) -> None:
    """One self-contained HTML page with tables and plots, and their files.

    Example: `fewset report runs/strokes-protonet runs/strokes-feat --out report`
    """
    from fewset.report.page import build_report

    console.print(f"report: {build_report(runs, out)}")


@app.command()
def params() -> None:
    """The paper's table of parameters: each set-to-set function at 64 and 640 dimensions, computed.

    Example: `fewset params`
    """
    from fewset.adapters import ADAPTERS

    table = Table("adapter", *(f"d = {dim}" for dim in (64, 640)))
    for name, adapter in sorted(ADAPTERS.items()):
        counts = (sum(p.numel() for p in adapter(dim).parameters()) for dim in (64, 640))
        table.add_row(name, *(f"{count:,}" for count in counts))
    console.print(table)
