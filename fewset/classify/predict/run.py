"""Answers for any number of photos, in chunks.

A chunk has the same photos with any number of processes and after any stop, so the results are the same. Each
process embeds its share of the chunks, all get the rows, and the main process writes.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path

import numpy as np

from fewset.classify.photos.rows import PhotoRow, photo_rows
from fewset.classify.photos.sources import Listing, check_no_photo, opened_paths, read_files
from fewset.classify.predict import sort
from fewset.classify.predict.answers import CHUNK, Predictor, Row, answer_row
from fewset.classify.predict.files import PartialAnswers, write_csv, write_json
from fewset.compute import distributed
from fewset.core.errors import UserError
from fewset.core.names import one_line
from fewset.core.progress import progress
from fewset.encoders import Encoder
from fewset.io.files import check_apart, check_output
from fewset.io.locks import alone

_LISTED = 10


@dataclass(frozen=True)
class Outputs:
    """Where answers and photos go."""

    csv: Path | None = None
    json: Path | None = None
    folder: Path | None = None
    """Photos are sorted into it."""
    link: bool = False
    """Whether links to the photos are made there, instead of moving the photos."""

    @property
    def verb(self) -> str:
        return "linked" if self.link else "moved"

    @property
    def partial(self) -> Path | None:
        """The file that holds the answers so far."""
        path = self.csv or self.json or self.folder
        return path and path.with_name(f"{path.name}.partial")

    def check(self, classes: np.ndarray, paths: Sequence[Path], read: Sequence[Path] = ()) -> None:
        """Check, before the work, that everything can be written after it; `read` lists other inputs."""
        partial = self.partial
        assert partial is not None
        named = {"--csv": self.csv, "--json": self.json, "the folder of photos": self.folder}
        check_apart({**named, "the answers so far": partial})
        for path in filter(None, (self.csv, self.json, partial)):
            check_output(path, chain(read_files(paths), read))
            check_no_photo(path)
        if self.folder is None:
            return
        check_output(self.folder, directory=True)
        sort.check_folders(self.folder, classes)
        for path in paths:
            if path.is_dir() and self.folder.resolve().is_relative_to(path.resolve()):
                raise UserError(f"{self.folder} is in {path}, whose photos are to be sorted; choose another")


@dataclass
class Summary:
    """Counts of the answers of a run."""

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


def answered_chunks(
    predictor: Predictor, encoder: Encoder, listing: Listing, done: int = 0
) -> Iterator[list[Row]]:
    """The answers of the chunks after the first `done` photos.

    Photos that help to classify each other come in one chunk, with a row of features in memory for each.
    """
    with progress("photos", len(listing), done) as advance:
        chunks = embedded_chunks(listing, encoder, range(done, len(listing), CHUNK))
        if predictor.together:
            chunks = filter(None, [list(chain.from_iterable(chunks))])
        for chunk in chunks:
            yield [answer_row(answer) for answer in predictor.answers(chunk)]
            advance(len(chunk))


def predict_to(
    predictor: Predictor,
    encoder: Encoder,
    classifier_digest: str,
    paths: Sequence[Path],
    outputs: Outputs,
    resume: bool,
    read: Sequence[Path] = (),
    every: float | None = None,
) -> Summary:
    """Answer all photos and write the outputs; `resume` continues a stopped run.

    Of films, one frame every `every` seconds is answered. `read` are the files that the predictor came
    from, which no output may replace.
    """
    partial = outputs.partial
    assert partial is not None
    outputs.check(predictor.learned.support.classes, paths, read)
    busy = f"another run writes {partial} now; wait until it is done, or write to another file"
    with alone(partial.with_name(f".{partial.name}.lock"), busy, distributed.on_main_process):
        if not resume and distributed.on_main_process(partial.exists):
            raise UserError(
                f"{partial} is from a stopped run; continue it with --resume, or remove it to start over"
            )
        options = [predictor.top, predictor.share, predictor.together, every, *map(str, paths)]
        run = sha256(json.dumps([classifier_digest, *options]).encode()).hexdigest()
        answers = PartialAnswers(partial, run)
        # Where photos are moved, they are no longer found: the answers say where they were.
        if not distributed.on_main_process(answers.complete) or outputs.folder is None:
            with opened_paths(paths, every, encoder.input_size) as listing:
                check_sortable(listing, paths, outputs)
                _answer(predictor, encoder, listing, answers)
        # The others do not wait: to move photos may take longer than processes wait for each other.
        return _finish(answers, predictor.top, outputs) if distributed.is_main_process() else Summary()


def _answer(predictor: Predictor, encoder: Encoder, listing: Listing, answers: PartialAnswers) -> None:
    """Answer the photos that have no answer yet."""
    names = sha256(json.dumps(listing.names).encode()).hexdigest()
    if len(set(distributed.all_gather(names))) > 1:
        raise UserError("the processes see different photos; put them where all machines find them")

    chunk = len(listing) if predictor.together else CHUNK
    done = distributed.on_main_process(lambda: answers.reopen(listing, chunk))
    # Before they are read: a photo that is replaced meanwhile then counts as changed.
    states = np.fromiter(map(listing.state, range(len(listing))), (np.int64, 2), len(listing))
    for rows in answered_chunks(predictor, encoder, listing, done):
        if distributed.is_main_process():
            answers.append(zip(states[done : done + len(rows)].tolist(), rows, strict=True))
        done += len(rows)
    if distributed.is_main_process():
        answers.finish()


def embedded_chunks(listing: Listing, encoder: Encoder, starts: Sequence[int]) -> Iterator[list[PhotoRow]]:
    """The rows of the chunks that begin with these photos; every process gets all of them."""
    world = distributed.world_size()
    mine = starts[distributed.rank() :: world]
    rows = photo_rows(chain.from_iterable(listing.photos(start, start + CHUNK) for start in mine), encoder)
    for turn in range(0, len(starts), world):
        number = turn + distributed.rank()
        count = min(CHUNK, len(listing) - starts[number]) if number < len(starts) else 0
        yield from filter(None, distributed.all_gather(list(islice(rows, count))))


def _finish(answers: PartialAnswers, top: int, outputs: Outputs) -> Summary:
    """Sort the photos, write the files, and remove the answers so far."""
    column, places = f"{outputs.verb}_to", []
    if outputs.folder is not None:
        place = sort.link if outputs.link else sort.move
        places = list(sort.sort_photos(answers.answers(), outputs.folder, place))

    def rows() -> Iterator[Row]:
        for number, (_, row) in enumerate(answers.answers()):
            yield {**row, column: places[number]} if places else row

    if outputs.csv is not None:
        write_csv(outputs.csv, rows(), top, [column] if places else [])
    if outputs.json is not None:
        write_json(outputs.json, rows())
    summary = Summary()
    for row in rows():
        summary.add(row)
    answers.path.unlink()
    return summary


def check_sortable(listing: Listing, paths: Sequence[Path], outputs: Outputs) -> None:
    """Photos inside a zip file, parts of photos and frames of films cannot be sorted.

    Photos behind a link to another place are not moved.
    """
    if outputs.folder is None:
        return
    for number in islice(listing.parts, 1):
        raise UserError(
            f"{listing.names[number]} is a part of a file and cannot be {outputs.verb}; write --csv"
        )
    for name, archive in zip(listing.names, listing.archives, strict=True):
        if archive is not None:
            raise UserError(
                f"{name} is inside a zip file and cannot be {outputs.verb}; unpack it, or write a list with "
                "--csv"
            )
    if outputs.link:
        return
    within = [(folder, folder.resolve()) for folder in paths if folder.is_dir()]
    for place in {Path(name).parent for name in listing.names}:
        for folder, itself in within:
            if place.is_relative_to(folder) and not place.resolve().is_relative_to(itself):
                raise UserError(
                    f"{place} is a link to a place outside of {folder}, whose photos would be moved away; "
                    "take --link-to, or name that place"
                )
