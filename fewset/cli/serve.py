"""A page to make and try a classifier: `fewset serve`."""

from pathlib import Path
from typing import Annotated

import typer

from fewset.cli.options import DeviceOption, PluginOption, start
from fewset.cli.output import echo

PANEL = "Classify"
commands = typer.Typer()
_LISTED = 10


@commands.command()
def serve(
    classifier: Annotated[Path | None, typer.Argument(help="A classifier to continue with.")] = None,
    host: Annotated[str, typer.Option(help="Others than loopback need the printed token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8300,
    encoder: Annotated[str | None, typer.Option(help="Default: that of the classifier.")] = None,
    allowed_host: Annotated[
        list[str] | None, typer.Option(help="A name by which a proxy makes the page available; repeatable.")
    ] = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Serve a page to sort photos into classes and try new ones. Stop it with Ctrl-C.

    Example: `fewset serve my.fewset`
    """
    start(plugin, with_torch=False)
    from fewset.compute.machine import tune
    from fewset.core.extras import import_extra

    for module in ("fastapi", "uvicorn", "python_multipart"):
        import_extra(module, "web")
    from fewset.classify.serve.project import earlier_work, work_file
    from fewset.classify.serve.server import run
    from fewset.classify.serve.workbench import open_workbench

    bench, queue = open_workbench(classifier, encoder, device)
    tune(with_torch=False)
    saved = work_file(classifier)
    earlier = earlier_work(saved)
    for file, when in earlier[:_LISTED]:
        echo(f"earlier work, saved at {when}: continue with `fewset serve {file}`, or delete that file")
    if len(earlier) > _LISTED:
        echo(f"and {len(earlier) - _LISTED} older ones; *Open* on the page lists them, too")

    def ready(address: str) -> None:
        echo(f"fewset is at {address}")
        echo(f"your work is saved to {saved} once two classes have photos; stop the server with Ctrl-C")

    run(bench, queue, host=host, port=port, ready=ready, allowed_hosts=allowed_host or (), saved=saved)
