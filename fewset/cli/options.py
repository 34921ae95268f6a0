"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

RecipesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="RECIPE...", help="A TOML file, or the name of a shipped recipe. Several run one by one."
    ),
]
RunArgument = Annotated[Path, typer.Argument(help="A run directory, or the name of a released model.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe; repeatable."),
]
RUNS = Path("runs")
RunsOption = Annotated[Path, typer.Option(help="Where run directories live; --out overrides it.")]
OutOption = Annotated[Path | None, typer.Option(help="The run directory; default: RUNS/NAME of the recipe.")]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on from the last checkpoint, if there is one.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Start anew over an existing run.")]
PluginOption = Annotated[
    list[Path] | None,
    typer.Option(
        envvar="FEWSET_PLUGINS", help="A Python file with your own adapters; it is executed. Repeatable."
    ),
]
DeviceOption = Annotated[
    str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, or auto (a GPU where there is one).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
