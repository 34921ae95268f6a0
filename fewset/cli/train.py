"""Training: a recipe becomes a run directory."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fewset.cli.options import (
    RUNS,
    DeviceOption,
    ForceOption,
    LogToOption,
    PluginOption,
    RunsOption,
    SetOption,
    options_of,
    start,
)
from fewset.cli.output import echo, print_result, resumable
from fewset.core.errors import UserError

PANEL = "Experiments"
commands = typer.Typer()

RecipesArgument = Annotated[
    list[str], typer.Argument(metavar="RECIPE...", help="TOML files, or names of shipped recipes.")
]
OutOption = Annotated[Path | None, typer.Option(help="The run directory; default: RUNS/NAME of the recipe.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint, if any.")]


def _execute(
    kind: Any,
    recipes: RecipesArgument,
    overrides: SetOption = None,
    runs: RunsOption = RUNS,
    out: OutOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    log_to: LogToOption = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    start(plugin)
    from fewset.experiments.recipes import find_recipe, read_recipe
    from fewset.experiments.train_run import execute

    # All are read before the first one trains: a wrong name is found at once.
    parsed = [read_recipe(find_recipe(recipe), overrides or []) for recipe in recipes]
    directories = [out or runs / recipe.name for recipe in parsed]
    if len(set(directories)) < len(directories):
        raise UserError(
            f"{len(recipes)} recipes, but {len(set(directories))} run directories: leave out --out and "
            "--set name=NAME where several recipes run, and give each recipe once"
        )
    for recipe, directory in zip(parsed, directories, strict=True):
        with resumable(f"the same command with --resume continues in {directory}"):
            options: dict[str, Any] = {
                "resume": resume,
                "force": force,
                "device": device,
                "log_to": log_to or (),
            }
            result = execute(recipe, kind, directory, echo=echo, **options)
        print_result(result)
        echo(f"run: {directory}")


@commands.command()
@options_of(_execute)
def pretrain(**options: Any) -> None:
    """Train a backbone to classify the classes of the train split.

    Example: `fewset pretrain strokes/pretrain --set pretrain.epochs=10`
    """
    _execute("pretrain", **options)


@commands.command()
@options_of(_execute)
def train(**options: Any) -> None:
    """Meta-train a whole model on sampled tasks.

    Example: `fewset train strokes/feat --set train.shot=5 --out runs/feat-5shot`
    """
    _execute("train", **options)
