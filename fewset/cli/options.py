"""Arguments and options that several commands share."""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

RUNS = Path("runs")
PLUGINS = "FEWSET_PLUGINS"  # a variable with files, as in PATH
Command = Callable[..., None]


def options_of(function: Callable[..., Any]) -> Callable[[Command], Command]:
    """Decorator: a command takes the options of `function`, as `**options`, after its own.

    Options are the annotated parameters; the others are for the command to give.
    """

    def decorate(command: Command) -> Command:
        theirs, mine = signature(function).parameters, signature(command).parameters
        shared = {name: each for name, each in theirs.items() if hasattr(each.annotation, "__metadata__")}
        own = {name: each for name, each in mine.items() if each.kind is not Parameter.VAR_KEYWORD}
        parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in {**own, **shared}.values()]
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate


def counted(help: str, least: int = 1, most: int = 10**8) -> Any:
    """An option that is a whole number within bounds: what lies beyond would take for ever, or all memory."""
    return typer.Option(min=least, max=most, help=help)


RunArgument = Annotated[Path, typer.Argument(help="A run directory, or the name of a released model.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe; repeatable."),
]
RunsOption = Annotated[Path, typer.Option(help="Where run directories live.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Start anew over an existing run.")]
PluginOption = Annotated[
    list[Path] | None,
    typer.Option(
        envvar=PLUGINS,
        help="A Python file with adapters, heads, importers, ... of your own; it is executed. Repeatable.",
    ),
]
DeviceOption = Annotated[
    str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, or auto (a GPU where there is one).")
]
LogToOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TRACKER",
        help="Tell a tracker of each epoch: tensorboard, mlflow, wandb, or a plugin's. Repeatable.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
