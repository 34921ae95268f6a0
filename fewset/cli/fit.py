"""A classifier from a few photos a class: `fewset fit`."""

from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from fewset.cli.classifiers import ClassesFromOption, card_of, left_out_later, print_learned, print_some
from fewset.cli.options import DeviceOption, PluginOption, start
from fewset.cli.output import echo
from fewset.cli.rejecting import RejectCommand, RejectOption, share_of
from fewset.core.errors import UserError
from fewset.io.files import check_apart, check_output, write_text

PANEL = "Classify"
commands = typer.Typer()


@commands.command(cls=RejectCommand)
def fit(
    photos: Annotated[
        Path,
        typer.Argument(
            help="A folder with a folder of photos for each class, a zip file of that, or a CSV file with "
            "the columns path and label; group for photos that belong together; x, y, width, height for a "
            "part of a photo."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write, such as my.fewset.")],
    encoder: Annotated[
        str, typer.Option(help="A name, hf:DIRECTORY, onnx:FILE, or a run directory.")
    ] = "auto",
    head: Annotated[str, typer.Option(help="The head that learns from the features.")] = "auto",
    background: Annotated[
        Path | None,
        typer.Option(
            help="Photos of many other classes of the domain, as PHOTOS are: FEAT is trained on them, and "
            "kept, with the set or without it, where it is ahead."
        ),
    ] = None,
    reject: RejectOption = None,
    classes_from: ClassesFromOption = None,
    card: Annotated[Path | None, typer.Option(help="The model card, in Markdown; default: OUT.md.")] = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Make a classifier from a few photos of each class, and estimate its accuracy.

    Example: `fewset fit photos/ -o my.fewset`
    """
    start(plugin, with_torch=background is not None)
    from fewset.classify.card import model_card
    from fewset.classify.classifier import FewShotClassifier
    from fewset.classify.embedding import chosen_encoder, files_of
    from fewset.classify.photos.sources import check_no_photo, read_files
    from fewset.classify.saving import is_classifier
    from fewset.compute import distributed
    from fewset.compute.machine import tune

    if is_classifier(photos):
        raise UserError(
            f"{photos} is a classifier; to add photos to it you want `fewset add {photos} PHOTOS`"
        )
    card = card or card_of(out)
    check_apart({"-o": out, "--card": card})
    folders = [photos] if background is None else [photos, background]
    for path in (out, card):
        check_output(path, chain(read_files(folders), files_of(encoder), plugin or ()))
        check_no_photo(path)
    chosen_encoder(encoder, device)  # a wrong name is an error before the photos are read
    tune(with_torch=False)
    options: Any = {
        "background": background,
        "reject": share_of(reject),
        "device": device,
        "classes_from": classes_from,
    }
    with left_out_later():
        classifier = FewShotClassifier(encoder, head, **options).fit(photos)
    learned = classifier.learned_
    if distributed.is_main_process():
        classifier.save(out)
        write_text(card, model_card(learned, out.stem))
    print_learned(learned)
    print_some("photos left out", [f"{name}: {problem}" for name, problem in classifier.skipped_])
    echo(f"classifier: {out}; use it with `fewset predict {out} PHOTOS`")
    echo(f"card: {card}")
