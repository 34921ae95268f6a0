"""The web page."""

from pathlib import Path
from typing import Annotated

import typer

from fewset.cli.options import DeviceOption, PluginOption, start
from fewset.cli.output import echo

PANEL = "Classify"
commands = typer.Typer()


@commands.command()
def serve(
    classifier: Annotated[Path | None, typer.Argument(help="A classifier to continue with.")] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Others than loopback need the printed token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8300,
    encoder: Annotated[
        str | None,
        typer.Option(help="The encoder of the photos; default: that of the classifier."),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(help="A name under which a proxy makes the page available; may be given again."),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Serve a page to sort photos into classes and try new ones. Stop it with Ctrl-C.

    Example: `fewset serve my.fewset`
    """
    start(plugin)
    from fewset.core.extras import import_extra

    for module in ("fastapi", "uvicorn", "python_multipart"):
        import_extra(module, "web")
    from fewset.classify.serve.server import earlier_work, run, work_file
    from fewset.classify.serve.workbench import open_workbench

    bench, queue = open_workbench(classifier, encoder, device)
    saved = work_file(classifier)
    for file, age in earlier_work(saved):
        echo(f"earlier work, saved {age} ago: continue with `fewset serve {file}`, or delete that file")

    def ready(address: str) -> None:
        echo(f"fewset is at {address}")
        echo(f"your work is saved to {saved} once two classes have photos; stop the server with Ctrl-C")
        if open_browser:
            typer.launch(address)

    run(
        bench,
        queue,
        host=host,
        port=port,
        ready=ready,
        allowed_hosts=allowed_host or (),
        saved=saved,
    )
