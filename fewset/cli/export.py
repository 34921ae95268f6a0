"""Classifiers and models for other programs: `fewset export`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fewset.cli.classifiers import EncoderOption
from fewset.cli.options import PluginOption, start
from fewset.cli.output import echo, print_warning
from fewset.cli.rejecting import NEVER_NONE, RejectCommand, RejectOption, share_of
from fewset.core.errors import UserError
from fewset.io.files import check_apart

PANEL = "Classify"
commands = typer.Typer()


@commands.command(cls=RejectCommand)
def export(
    source: Annotated[Path, typer.Argument(help="A classifier, a run directory, or a released model.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="FILE.onnx for one file, or a folder for the parts.")
    ] = None,
    joined: Annotated[bool, typer.Option("--joined", help="Write joined.onnx into the folder too.")] = False,
    web: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder with a page that classifies in the browser.")
    ] = None,
    runtime: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Of onnxruntime-web; default: where npm installs it.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    hub: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A folder for the Hugging Face Hub: the classifier without its photos."
        ),
    ] = None,
    reject: RejectOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier export.")] = False,
    encoder: EncoderOption = None,
    plugin: PluginOption = None,
) -> None:
    """Write a classifier as ONNX, or as a page that needs no server; a model as ONNX for tasks of any size.

    Example: `fewset export my.fewset -o my.onnx`
    """
    start(plugin)
    from fewset.classify.embedding import files_of
    from fewset.classify.export import writing
    from fewset.experiments.weights import load

    as_file = out is not None and out.suffix.lower() == ".onnx"
    if out is None and web is None and hub is None:
        raise UserError("there is nothing to write; give -o FILE.onnx, -o DIR, --web DIR or --hub DIR")
    check_apart({"-o": out, "--web": web, "--hub": hub})
    if joined and out is None:
        raise UserError("--joined needs -o FILE.onnx or -o DIR")
    if runtime is not None and web is None:
        raise UserError("--runtime is for the page; give --web DIR")
    if title is not None and (web is None or not title.strip()):
        raise UserError("--title is the text above the page, which --web DIR writes")

    def check(read: list[Path]) -> None:
        for path, directory in ((out, not as_file), (web, True), (hub, True)):
            if path is not None:
                writing.check_target(path, directory=directory, force=force, read=read)

    check([source, *(plugin or ())])
    files = writing.find_runtime(runtime) if web is not None else []
    if writing.is_model(source):
        if any(given is not None for given in (web, hub, encoder, reject)):
            raise UserError(
                f"{source} is a model; --web, --hub, --encoder and --reject are for classifiers, leave them "
                "out"
            )
        exported: writing.ClassifierExport | writing.ModelExport = writing.ModelExport(load(source))
    else:
        opened = writing.open_classifier(source, encoder)
        exported = classifier = replace(opened, share=share_of(reject, opened.share))
        if reject is not None and not classifier.learned.trust.closeness:
            print_warning(NEVER_NONE)
        check(files_of(classifier.encoder.id))
        if web is not None:
            classifier.write_page(web, files, title or writing.TITLE)
            echo(f"page: {web}; show it with `python -m http.server --directory {web}`")
        if hub is not None:
            classifier.write_hub(hub)
            echo(f"for the Hub: {hub}; publish it with `hf upload OWNER/NAME {hub}`")
    if out is not None:
        if as_file:
            exported.write_file(out)
        else:
            exported.write_folder(out, joined)
        echo(f"ONNX: {out}")
