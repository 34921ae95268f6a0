"""Which photos to label next."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fewset.cli.classifiers import ClassifierArgument, EncoderOption, in_order, print_some
from fewset.cli.options import DeviceOption, PluginOption, counted, start
from fewset.cli.output import echo
from fewset.compute import distributed
from fewset.core.names import one_line
from fewset.io.files import check_apart, check_output, write_text

if TYPE_CHECKING:
    from fewset.classify.photos.rows import PhotoRow
    from fewset.classify.photos.sources import Listing
    from fewset.classify.predict.run import Outputs
    from fewset.classify.suggest.suggestions import Suggestion
    from fewset.encoders import Encoder

PANEL = "Classify"
commands = typer.Typer()


@commands.command()
def suggest(
    classifier: ClassifierArgument,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PHOTOS...",
            help="Unlabelled photos: folders, zip files, photos, or CSV files with a column path.",
        ),
    ],
    count: Annotated[int, counted("How many photos to label.", most=1000)] = 20,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a page that shows the photos.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write a list of the photos.")] = None,
    link_to: Annotated[
        Path | None,
        typer.Option(help="Link to the photos in DIR/CLASS, by the likeliest class.", metavar="DIR"),
    ] = None,
    encoder: EncoderOption = None,
    device: DeviceOption = "auto",
    plugin: PluginOption = None,
) -> None:
    """Find the photos that are most worth labelling next.

    These are photos about which the classifier is unsure, that are like many others, and unlike each other.
    Those that are unlike all labelled ones may be of a new class.

    Example: `fewset suggest my.fewset inbox/ --count 20 --page next.html`
    """
    start(plugin, with_torch=False)
    from fewset.classify.embedding import encoder_of, files_of
    from fewset.classify.photos.sources import check_no_photo, opened_paths, read_files
    from fewset.classify.predict.run import Outputs, check_sortable
    from fewset.classify.saving import load_classifier
    from fewset.classify.suggest.suggestions import read_unlabelled, suggestions
    from fewset.compute.device_names import find_device
    from fewset.compute.machine import tune

    find_device(device)  # a wrong one is found first
    classifier, paths = in_order(classifier, paths)
    learned, _ = load_classifier(classifier)
    used = encoder_of(learned, encoder, device)
    tune(with_torch=False)
    read = [classifier, *files_of(used.id), *(plugin or ())]
    check_apart({"--page": page, "--csv": csv, "--link-to": link_to})
    outputs = Outputs(csv, None, link_to, link=True)
    if outputs.partial is not None:
        outputs.check(learned.support.classes, paths, read)
    if page is not None:
        check_output(page, chain(read_files(paths), read))
        check_no_photo(page)
    with opened_paths(paths) as listing:
        check_sortable(listing, paths, outputs)
        photos = read_unlabelled(_rows(listing, used))
        found = suggestions(learned, photos, count)
        for each in found:
            echo(f"{one_line(each.name)}: {each.reason}")
        if len(found) < count:
            echo(f"{len(found):,} of the {count:,}: the others are like labelled or suggested photos")
        print_some("photos that could not be read", photos.problems)
        if distributed.is_main_process():
            if page is not None:
                write_text(page, _page(found, listing, used))
                echo(f"page: {page}")
            _write_files(found, listing, outputs)


def _rows(listing: "Listing", encoder: "Encoder") -> "Iterator[PhotoRow]":
    """The rows of all photos; each process embeds its share."""
    from fewset.classify.predict.answers import CHUNK
    from fewset.classify.predict.run import embedded_chunks
    from fewset.core.progress import progress

    with progress("photos", len(listing)) as advance:
        for chunk in embedded_chunks(listing, encoder, range(0, len(listing), CHUNK)):
            yield from chunk
            advance(len(chunk))


def _page(found: "list[Suggestion]", listing: "Listing", encoder: "Encoder") -> str:
    from fewset.classify.photos.rows import read_photo_for
    from fewset.classify.suggest.page import suggestions_page

    photos = (next(listing.photos(each.index, each.index + 1)) for each in found)
    thumbnails = [read_photo_for(encoder, photo, thumbnails=True)[0].thumbnail for photo in photos]
    title = f"{len(found):,} photo{'s' * (len(found) > 1)} to label next"
    return suggestions_page(title, found, thumbnails)


def _write_files(found: "list[Suggestion]", listing: "Listing", outputs: "Outputs") -> None:
    """Links to the photos, and the list."""
    from fewset.classify.predict import sort
    from fewset.classify.predict.answers import answer_row
    from fewset.classify.predict.files import write_csv

    rows: list[dict[str, Any]] = [{**answer_row(each.answer), "reason": each.reason} for each in found]
    more = ["reason"]
    if outputs.folder is not None:
        states = [listing.state(each.index) for each in found]
        places = sort.sort_photos(zip(states, rows, strict=True), outputs.folder, sort.link)
        rows = [{**row, "linked_to": place} for row, place in zip(rows, list(places), strict=True)]
        more.append("linked_to")
        echo(f"links: {outputs.folder}; correct them by moving them between its folders")
    if outputs.csv is not None:
        write_csv(outputs.csv, rows, 2, more)
        echo(f"list: {outputs.csv}")
