"""The whole path on the embedded set, in one command."""

from pathlib import Path
from typing import Annotated

import typer

from fewset.cli.options import DeviceOption, LogToOption, PluginOption
from fewset.cli.output import echo, resumable
from fewset.cli.start import start

PANEL = "Experiments"
commands = typer.Typer()


@commands.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the runs and the report go.")] = Path("fewset-demo"),
    log_to: LogToOption = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """From nothing to a report: what a set-to-set function adds, shown on 10,000 tasks a method.

    Example: `fewset demo --out demo`
    """
    start(plugin)
    from fewset.paper.demo import demo as run_demo

    with resumable("the same command goes on from here"):
        run_demo(out, echo, device, log_to=log_to or ())
