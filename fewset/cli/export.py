"""Classifiers and models for programs that have no torch, and for browsers."""

from pathlib import Path
from typing import Annotated

import typer

from fewset.cli.options import PluginOption, start
from fewset.cli.output import echo
from fewset.core.errors import UserError
from fewset.io.files import check_apart

PANEL = "Classify"
commands = typer.Typer()


@commands.command()
def export(
    source: Annotated[
        Path,
        typer.Argument(help="A classifier that `fewset fit` wrote, a run directory, or a released model."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="A file that ends in .onnx: the whole as one file. Any other name: a folder with the parts.",
        ),
    ] = None,
    joined: Annotated[
        bool, typer.Option("--joined", help="Write the one file, joined.onnx, into the folder too.")
    ] = False,
    web: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A folder with a page that classifies in the browser."),
    ] = None,
    runtime: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where the files of onnxruntime-web are; if not given, where npm installs it.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier export.")] = False,
    encoder: Annotated[
        str | None, typer.Option(help="Where the encoder is, if it is not where it was when fitting.")
    ] = None,
    plugin: PluginOption = None,
) -> None:
    """Write a classifier as ONNX, or as a page that needs no server; a model as ONNX for tasks of any size.

    Example: `fewset export my.fewset -o my.onnx`
    """
    start(plugin)
    from fewset.classify.embedding import files_of
    from fewset.classify.export.writing import (
        ClassifierExport,
        ModelExport,
        check_target,
        find_runtime,
        is_model,
        open_classifier,
    )
    from fewset.experiments.weights import load

    as_file = out is not None and out.suffix.lower() == ".onnx"
    if out is None and web is None:
        raise UserError("there is nothing to write; give -o FILE.onnx, -o DIR or --web DIR")
    check_apart({"-o": out, "--web": web})
    if joined and out is None:
        raise UserError("--joined needs -o FILE.onnx or -o DIR")
    if runtime is not None and web is None:
        raise UserError("--runtime is for the page; give --web DIR")

    def check(read: list[Path]) -> None:
        for path, directory in ((out, not as_file), (web, True)):
            if path is not None:
                check_target(path, directory=directory, force=force, read=read)

    check([source, *(plugin or ())])
    files = find_runtime(runtime) if web is not None else []
    if is_model(source):
        if web is not None or encoder is not None:
            raise UserError(f"{source} is a model; --web and --encoder are for classifiers, leave them out")
        exported: ClassifierExport | ModelExport = ModelExport(load(source))
    else:
        exported = classifier = open_classifier(source, encoder)
        check(files_of(classifier.encoder.id))
        if web is not None:
            classifier.write_page(web, files)
            echo(f"page: {web}; show it with `python -m http.server --directory {web}`")
    if out is not None:
        if as_file:
            exported.write_file(out)
        else:
            exported.write_folder(out, joined)
        echo(f"ONNX: {out}")
