"""Training: a recipe becomes a run directory."""

from pathlib import Path
from typing import Any

import typer

from fewset.cli.options import (
    RUNS,
    DeviceOption,
    ForceOption,
    OutOption,
    PluginOption,
    RecipesArgument,
    ResumeOption,
    RunsOption,
    SetOption,
)
from fewset.cli.output import echo, print_result
from fewset.cli.start import start
from fewset.runtime.errors import UserError

PANEL = "Experiments"
commands = typer.Typer()


@commands.command()
def pretrain(
    recipes: RecipesArgument,
    overrides: SetOption = None,
    runs: RunsOption = RUNS,
    out: OutOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    device: DeviceOption = "auto",
) -> None:
    """Train a backbone to classify the classes of the train split.

    Example: `fewset pretrain strokes/pretrain --set pretrain.epochs=10`
    """
    start()
    _execute("pretrain", recipes, overrides, runs, out, resume, force, device)


@commands.command()
def train(
    recipes: RecipesArgument,
    overrides: SetOption = None,
    runs: RunsOption = RUNS,
    out: OutOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Meta-train a whole model on sampled tasks.

    Example: `fewset train strokes/feat --set train.shot=5 --out runs/feat-5shot`
    """
    start(plugin)
    _execute("train", recipes, overrides, runs, out, resume, force, device)


def _execute(
    kind: Any,
    recipes: list[str],
    overrides: list[str] | None,
    runs: Path,
    out: Path | None,
    resume: bool,
    force: bool,
    device: str,
) -> None:
    from fewset.experiments.execute import execute
    from fewset.experiments.recipes import find_recipe, read_recipe

    # All are read before the first one trains: a wrong name is found at once.
    parsed = [read_recipe(find_recipe(recipe), overrides or []) for recipe in recipes]
    directories = [out or runs / recipe.name for recipe in parsed]
    if len(set(directories)) < len(directories):
        raise UserError(
            f"{len(recipes)} recipes, but {len(set(directories))} run directories: leave out --out and "
            "--set name=NAME where several recipes run, and give each recipe once"
        )
    for recipe, directory in zip(parsed, directories, strict=True):
        try:
            result = execute(recipe, kind, directory, resume=resume, force=force, device=device, echo=echo)
        except KeyboardInterrupt:
            echo(f"stopped; the same command with --resume goes on in {directory}")
            raise
        print_result(result)
        echo(f"run: {directory}")
