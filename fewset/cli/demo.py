"""The main job on the embedded set, from nothing to a report."""

from pathlib import Path
from typing import Annotated

import typer

from fewset.cli.options import DeviceOption, LogToOption, PluginOption, start
from fewset.cli.output import echo, resumable
from fewset.core.extras import imports

PANEL = "Experiments"
METHODS = ("protonet", "norm", "itemwise", "feat", "weighing")
STAGES: tuple[str | Path, ...] = tuple(f"families/conv4-{name}" for name in ("pretrain", *METHODS))
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
    from fewset.experiments.recipes import find_recipe, read_recipe
    from fewset.experiments.train_run import execute
    from fewset.report.loading import load_results
    from fewset.report.tables import comparison_table, plain_text

    runs = []
    with resumable("the same command continues from here"):
        for number, name in enumerate(STAGES, start=1):
            recipe = read_recipe(find_recipe(name))
            echo(f"[{number}/{len(STAGES)}] {recipe.method}: {name}")
            run = out / recipe.name
            execute(recipe, recipe.kind, run, resume=True, device=device, echo=echo, log_to=log_to or ())
            if recipe.kind == "train":
                runs.append(run)
    echo(plain_text(comparison_table(load_results(runs))))
    echo(f"runs: {', '.join(map(str, runs))}")
    if imports("jinja2", "matplotlib"):
        _report(runs, out)
    else:
        echo("for a report with figures: pip install 'fewset[report]', then the same command again")


def _report(runs: list[Path], out: Path) -> None:
    from fewset.data.images.store import open_set
    from fewset.io.files import write_bytes
    from fewset.report.figures import png
    from fewset.report.page import build_report
    from fewset.report.picture_figures import family_figure

    page = build_report(runs, out)
    picture = out / "families.png"
    write_bytes(picture, png(family_figure(open_set("families"))))
    echo(f"families: {picture}")
    echo(f"report: {page}")
