"""The answers for any number of photos, in chunks: by several processes alike, and continued after a stop.

A chunk is the same photos whatever the number of processes and wherever a run was stopped, so the answers are
the same. Each process embeds its share of the chunks, all get the rows, and the first one writes.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from fewset.classify.model import Learned
from fewset.classify.photos.rows import BATCH, PhotoRow, photo_rows
from fewset.classify.photos.sources import (
    Listing,
    Photo,
    check_no_photo,
    could_list,
    opened_paths,
    read_files,
)
from fewset.classify.predict.answers import Row, answer_row, answered
from fewset.classify.predict.files import PartialAnswers, key_of, write_csv, write_lines
from fewset.classify.predict.sort import (
    Place,
    check_folders,
    class_folders,
    move,
    plan_sorting,
    planned_by,
    read_plan,
    sort_photos,
    write_plan,
)
from fewset.compute import distributed
from fewset.core.errors import UserError
from fewset.core.names import one_line
from fewset.core.progress import progress
from fewset.encoders import Encoder
from fewset.io.files import check_apart, check_output
from fewset.io.locks import alone

CHUNK = 2 * BATCH
"""Photos between two writes. A multiple of what the encoder gets at once, which must not depend on it."""
_LISTED = 10


@dataclass(frozen=True)
class Predictor:
    """A classifier, and how it is asked."""

    learned: Learned
    encoder: Encoder
    top: int = 3
    share: float | None = None
    """Of the classes' own photos that may be turned away as none of these; None: none are."""
    together: bool = False

    def chunks(self, listing: Listing, starts: Sequence[int] | None = None) -> Iterator[list[Row]]:
        """The answers of the chunks that begin with the photos of these numbers; of all, unless given.

        `together` they come in one chunk: a row of features is kept in memory for each photo.
        """
        if starts is None or self.together:
            starts = range(0, len(listing), CHUNK)
        done = len(listing) - sum(min(CHUNK, len(listing) - start) for start in starts)
        with progress("photos", len(listing), done) as advance:
            chunks = _embedded_chunks(listing, self.encoder, starts)
            if self.together:
                rows = []
                for chunk in chunks:
                    rows += chunk
                    advance(len(chunk))
                yield self._answers(rows)
                return
            for chunk in chunks:
                yield self._answers(chunk)
                advance(len(chunk))

    def _answers(self, rows: Sequence[PhotoRow]) -> list[Row]:
        return [
            answer_row(each) for each in answered(self.learned, rows, self.top, self.share, self.together)
        ]


@dataclass(frozen=True)
class Outputs:
    """Where answers and photos go."""

    csv: Path | None = None
    json: Path | None = None
    folder: Path | None = None
    """Photos are sorted into it."""
    place: Place | None = None
    """How photos get there: `move` or `link`."""
    verb: str = ""
    """What is done to them, "moved" or "linked"."""

    @property
    def partial(self) -> Path | None:
        """The file that a stopped run goes on from."""
        return next(
            (path.with_name(f"{path.name}.partial") for path in (self.csv, self.json, self.folder) if path),
            None,
        )

    def check(self, learned: Learned, paths: Sequence[Path], read: Sequence[Path] = ()) -> None:
        """Refuse, before the work, what cannot be written after it, and what is `read` besides the photos."""
        assert self.partial is not None
        besides = {"the answers so far": self.partial, "their lock": _lock(self.partial)}
        folders = {} if self.folder is None else class_folders(self.folder, learned.support.classes)
        sorting = {"the folder of photos": self.folder, **folders}
        check_apart({"--csv": self.csv, "--json": self.json, **sorting, **besides})
        for path in filter(None, (self.csv, self.json, *besides.values())):
            check_output(path, chain(read_files(paths), read))
            check_no_photo(path)
        if self.folder is not None:
            check_output(self.folder, directory=True)
            check_folders([self.folder, *folders.values()])
            for path in paths:
                if path.is_dir() and self.folder.resolve().is_relative_to(path.resolve()):
                    raise UserError(
                        f"{self.folder} is in {path}, whose photos are to be sorted; choose another"
                    )


@dataclass
class Summary:
    """What a run found."""

    counts: Counter[str] = field(default_factory=Counter)
    """Photos of each class, and of none."""
    unreadable: int = 0
    problems: list[str] = field(default_factory=list)
    """The first photos that could not be read, and why."""

    def add(self, row: Row) -> None:
        if row["problem"] is None:
            self.counts[str(row["class"])] += 1
            return
        self.unreadable += 1
        if len(self.problems) < _LISTED:
            self.problems.append(f"{one_line(row['file'])}: {row['problem']}")


def predict_to(
    predictor: Predictor,
    classifier_digest: str,
    paths: Sequence[Path],
    outputs: Outputs,
    resume: bool,
    read: Sequence[Path] = (),
) -> Summary:
    """Answer all photos and write the outputs, which must be some; with `resume` a stopped run goes on.

    `read` are the files that the predictor came from, which no output may replace.
    """
    partial = outputs.partial
    assert partial is not None
    outputs.check(predictor.learned, paths, read)
    told = f"another run writes {partial} now; wait until it is done, or write to another file"
    with alone(_lock(partial), told, distributed.on_main_process):
        if not resume and distributed.on_main_process(partial.exists):
            raise UserError(
                f"{partial} is what a stopped run left; go on with it by --resume, or remove it to start over"
            )
        options = predictor.top, predictor.share, predictor.together
        return _predict_to(predictor, key_of(classifier_digest, *options), paths, outputs, partial)


def _predict_to(
    predictor: Predictor, key: str, paths: Sequence[Path], outputs: Outputs, partial: Path
) -> Summary:
    plan_key = key_of(key, *paths)
    planned = distributed.on_main_process(lambda: planned_by(partial))
    if planned is not None and (planned != plan_key or outputs.folder is None):
        raise UserError(
            f"{partial} is of a run that was stopped while it sorted photos; give the command that began it, "
            "with --resume"
        )
    if planned is None:
        with opened_paths(paths) as listing:
            _check_sortable(listing, paths, outputs)
            if len(set(distributed.all_gather(key_of(*listing.names)))) > 1:
                raise UserError("the processes see different photos; put them where all machines find them")
            answers = PartialAnswers(partial, key, listing)
            _answer(predictor, answers)
    # The others do not wait: to move photos may take longer than processes wait for each other.
    if not distributed.is_main_process():
        return Summary()
    if outputs.folder is None or outputs.place is None:
        return _finish(answers.rows, predictor.top, outputs, partial)
    if planned is None:
        states = map(answers.state, range(len(listing)))
        steps = plan_sorting(zip(answers.rows(), states, strict=True), outputs.folder, outputs.place)
        write_plan(partial, plan_key, steps)
    return _sort(partial, predictor.top, outputs, outputs.folder, outputs.place, could_list(paths))


def _sort(
    plan: Path, top: int, outputs: Outputs, folder: Path, place: Place, listed: Callable[[str], bool]
) -> Summary:
    for _ in read_plan(plan, folder, listed):  # all of it is right before a photo is touched
        pass
    places = list(sort_photos(read_plan(plan, folder, listed), place))

    def rows() -> Iterator[Row]:
        for step, now in zip(read_plan(plan, folder, listed), places, strict=True):
            yield {**step.row, f"{outputs.verb}_to": now}

    return _finish(rows, top, outputs, plan)


def _answer(predictor: Predictor, answers: PartialAnswers) -> None:
    """Answer the photos that have no answer yet."""

    def missing() -> list[int]:
        answers.reopen()
        # Photos that help to classify each other are answered all at once.
        return [0] if predictor.together else answers.missing(CHUNK)

    starts = distributed.on_main_process(missing)
    for start, rows in zip(starts, predictor.chunks(answers.listing, starts), strict=True):
        if distributed.is_main_process():
            answers.append(start, rows)


def _embedded_chunks(listing: Listing, encoder: Encoder, starts: Sequence[int]) -> Iterator[list[PhotoRow]]:
    """The rows of the chunks that begin with these photos; every process gets all of them."""
    world = distributed.world_size()
    mine = starts[distributed.rank() :: world]
    rows = photo_rows(_photos(listing, mine), encoder)
    for turn in range(0, len(starts), world):
        number = turn + distributed.rank()
        count = min(CHUNK, len(listing) - starts[number]) if number < len(starts) else 0
        for chunk in distributed.all_gather(list(islice(rows, count))):
            if chunk:
                yield chunk


def _photos(listing: Listing, starts: Sequence[int]) -> Iterator[Photo]:
    for start in starts:
        yield from listing.photos(start, start + CHUNK)


def _lock(partial: Path) -> Path:
    return partial.with_name(f".{partial.name}.lock")


def _finish(rows: Callable[[], Iterator[Row]], top: int, outputs: Outputs, partial: Path) -> Summary:
    """Write the files, and remove what a stopped run would go on from."""
    if outputs.csv is not None:
        write_csv(outputs.csv, rows(), top, [f"{outputs.verb}_to"] if outputs.verb else [])
    if outputs.json is not None:
        write_lines(outputs.json, rows())
    summary = Summary()
    for row in rows():
        summary.add(row)
    partial.unlink()
    return summary


def _check_sortable(listing: Listing, paths: Sequence[Path], outputs: Outputs) -> None:
    if outputs.folder is not None and listing.packed is not None:
        raise UserError(
            f"{listing.packed} is inside a zip file and cannot be {outputs.verb}; unpack it, or write a list "
            "with --csv"
        )
    if outputs.place is move:
        _refuse_to_empty(listing, [path for path in paths if path.is_dir()])


def _refuse_to_empty(listing: Listing, folders: Sequence[Path]) -> None:
    """Refuse to move photos away from elsewhere, where a linked directory in one of the folders leads."""
    within = [(folder, folder.resolve()) for folder in folders]
    for place in {Path(name).parent for name in listing.names}:
        for folder, itself in within:
            if place.is_relative_to(folder) and not place.resolve().is_relative_to(itself):
                raise UserError(
                    f"{place} is a link to a place outside of {folder}, whose photos would be moved away; "
                    "take --link-to, or name that place"
                )
