"""The answers for any number of photos, in chunks: by several processes alike, and continued after a stop.

A chunk is the same photos whatever the number of processes and wherever a run was stopped, so the answers are
the same. Each process embeds its share of the chunks, all get the rows, and the first one writes.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain, islice
from operator import ne
from pathlib import Path

from fewset.classify.answer_files import answer_row, write_csv, write_lines
from fewset.classify.answering import answered
from fewset.classify.journal import Heading, Journal, Row, begin, check_same, files_beside, reopen
from fewset.classify.learned import Learned
from fewset.classify.photo_rows import BATCH, PhotoRow, photo_rows
from fewset.classify.photos import Listing, Photo, check_no_photo, could_list, opened_paths, read_files
from fewset.classify.sorting import Place, check_folders, class_folders, move, sort_photos, sorted_to
from fewset.models.encoders import Encoder
from fewset.runtime import distributed
from fewset.runtime.errors import UserError
from fewset.runtime.files import check_apart, check_output
from fewset.runtime.locks import alone
from fewset.runtime.names import one_line
from fewset.runtime.progress import progress

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

    def chunks(self, listing: Listing, first: int = 0) -> Iterator[list[Row]]:
        """The answers from number `first` on, in the order of the photos.

        `together` they come in one chunk: a row of features is kept in memory for each photo.
        """
        with progress("photos", len(listing), first) as advance:
            chunks = _embedded_chunks(listing, self.encoder, first)
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
    def journal(self) -> Path | None:
        """The file that a stopped run goes on from."""
        return next(
            (path.with_name(f"{path.name}.partial") for path in (self.csv, self.json, self.folder) if path),
            None,
        )

    def check(self, learned: Learned, paths: Sequence[Path], read: Sequence[Path] = ()) -> None:
        """Refuse, before the work, what cannot be written after it, and what is `read` besides the photos."""
        assert self.journal is not None
        journals = {f"the {what}": path for what, path in files_beside(self.journal).items()}
        folders = {} if self.folder is None else class_folders(self.folder, learned.support.classes)
        sorting = {"the folder of photos": self.folder, **folders}
        check_apart({"--csv": self.csv, "--json": self.json, **sorting, **journals})
        for path in filter(None, (self.csv, self.json, *journals.values())):
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
    journal = outputs.journal
    assert journal is not None
    outputs.check(predictor.learned, paths, read)
    told = f"another run writes {journal} now; wait until it is done, or write to another file"
    with alone(files_beside(journal)["lock"], told):
        return _predict_to(predictor, classifier_digest, paths, outputs, resume)


def _predict_to(
    predictor: Predictor, classifier_digest: str, paths: Sequence[Path], outputs: Outputs, resume: bool
) -> Summary:
    # Photos that help to classify each other are answered all at once, or not at all.
    chunk = sys.maxsize if predictor.together else CHUNK
    journal = distributed.on_main_process(lambda: _stopped(outputs, resume, chunk))
    options = f"--top {predictor.top}, reject {predictor.share}, together {predictor.together}"
    words = tuple(str(path) for path in paths)
    if journal is not None and journal.complete:  # some photos may have been moved away already
        found = journal.heading
        check_same(
            found, Heading(classifier_digest, words, options, found.photos, found.listed), journal.path
        )
        names = [row["file"] for row in journal.rows()]
        if _digest(names) != found.listed or not all(map(could_list(paths), names)):
            raise _other_photos(journal)
    else:
        with opened_paths(paths) as listing:
            _check_sortable(listing, paths, outputs)
            heading = Heading(classifier_digest, words, options, len(listing), _digest(listing.names))
            if len(set(distributed.all_gather(heading))) > 1:
                raise UserError("the processes see different photos; put them where all machines find them")
            journal = distributed.on_main_process(lambda: _ready(journal, heading, outputs, listing.names))
            for rows in predictor.chunks(listing, journal.done):
                if distributed.is_main_process():
                    journal.append(rows)
    # The others do not wait: to move photos may take longer than processes wait for each other.
    return _finish(journal, predictor.top, outputs) if distributed.is_main_process() else Summary()


def _embedded_chunks(listing: Listing, encoder: Encoder, first: int) -> Iterator[list[PhotoRow]]:
    """The rows of all photos from number `first` on, a chunk at a time; every process gets all of them."""
    world = distributed.world_size()
    starts = range(first, len(listing), CHUNK)
    mine = starts[distributed.rank() :: world]
    rows = photo_rows(_photos(listing, mine), encoder, thumbnails=False)
    for turn in range(0, len(starts), world):
        number = turn + distributed.rank()
        count = min(CHUNK, len(listing) - starts[number]) if number < len(starts) else 0
        for chunk in distributed.all_gather(list(islice(rows, count))):
            if chunk:
                yield chunk


def _photos(listing: Listing, starts: Sequence[int]) -> Iterator[Photo]:
    for start in starts:
        yield from listing.photos(start, start + CHUNK)


def _stopped(outputs: Outputs, resume: bool, chunk: int) -> Journal | None:
    """The journal of a stopped run, if there is one; it must be meant to go on."""
    path = outputs.journal
    if path is None or not path.exists():
        return None
    if not resume:
        raise UserError(
            f"{path} is what a stopped run left; go on with it by --resume, or remove it to start anew"
        )
    return reopen(path, chunk)


def _ready(journal: Journal | None, heading: Heading, outputs: Outputs, names: Sequence[str]) -> Journal:
    if journal is None:
        assert outputs.journal is not None
        return begin(outputs.journal, heading)
    check_same(journal.heading, heading, journal.path)
    answered_names = (row["file"] for row in journal.rows())
    if journal.done > len(names) or any(map(ne, answered_names, names)):
        raise _other_photos(journal)
    return journal


def _other_photos(journal: Journal) -> UserError:
    return UserError(f"{journal.path} has answers for other photos than PATHS; remove it to start anew")


def _finish(journal: Journal, top: int, outputs: Outputs) -> Summary:
    summary = Summary()
    more = f"{outputs.verb}_to" if outputs.verb else ""
    if outputs.folder is not None and outputs.place is not None:
        sort_photos(journal.rows(), outputs.folder, outputs.place, journal.log)

    def rows() -> Iterator[Row]:
        if not more:
            yield from journal.rows()
        else:
            for row, place in zip(journal.rows(), sorted_to(journal.log), strict=True):
                yield {**row, more: place}

    if outputs.csv is not None:
        write_csv(outputs.csv, rows(), top, [more] if more else [])
    if outputs.json is not None:
        write_lines(outputs.json, rows())
    for row in journal.rows():
        summary.add(row)
    journal.remove()
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


def _digest(names: Iterable[str]) -> str:
    digest = sha256()
    for name in names:
        digest.update(name.encode(errors="surrogateescape") + b"\0")
    return digest.hexdigest()
