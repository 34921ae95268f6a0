"""What several commands share: arguments and options, and how a command begins."""

from collections.abc import Callable, Iterable
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

RUNS = Path("runs")
PLUGINS = "FEWSET_PLUGINS"  # a variable with files, as in PATH
Command = Callable[..., None]


def options_of(function: Callable[..., Any]) -> Callable[[Command], Command]:
    """Decorator: a command takes the options of `function`, as `**options`, after its own.

    Options are the annotated parameters; the command itself gives the others.
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
    """An option that is a bounded whole number: a larger one would take for ever, or all memory."""
    return typer.Option(min=least, max=most, help=help)


SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe; repeatable."),
]
RunsOption = Annotated[Path, typer.Option(help="Where run directories live.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing run.")]
PluginOption = Annotated[
    list[Path] | None,
    typer.Option(envvar=PLUGINS, help="A Python file with custom parts, which is executed. Repeatable."),
]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps, or auto (cuda where there is one).")]
LogToOption = Annotated[
    list[str] | None,
    typer.Option(metavar="TRACKER", help="tensorboard, mlflow, wandb, or a plugin's. Repeatable."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def start(plugins: Iterable[Path] | None = None, with_torch: bool = True) -> None:
    """Tune the process, which must come before the first import of torch, then load the plugins.

    Every command that computes calls this before it imports anything of the library. Without `with_torch` it
    calls `tune` again after torch may have been imported.
    """
    from fewset.compute.machine import tune

    tune(with_torch)
    load_plugins(plugins)


def load_plugins(plugins: Iterable[Path] | None) -> None:
    """Load the files that the user named."""
    for plugin in plugins or ():
        from fewset.experiments.plugins import load_plugin

        load_plugin(plugin)
