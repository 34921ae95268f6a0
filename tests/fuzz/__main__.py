"""`python -m tests.fuzz`: run, replay, kills, races, page."""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fuzz import campaign, kills, page, races, records
from tests.fuzz.room import Room
from tests.fuzz.worker import serve

Options = argparse.Namespace
ROOT = Path(__file__).parents[2]


def _run(given: Options) -> int:
    record = campaign.run(
        given.minutes,
        processes=given.processes,
        seed=given.seed,
        first=given.first,
        only=given.only,
        failures=given.failures,
    )
    for name, outcomes in record.readers.items():
        print(
            f"{name}: {outcomes.accepted} accepted, {outcomes.refused} refused, wrong: {outcomes.wrong or 0}"
        )
    print(f"{record.inputs} inputs in {record.minutes} minutes, {record.wrong} wrong")
    _keep(record, given.record)
    return int(record.wrong > 0)


@contextmanager
def _prepared() -> Iterator[tuple[Path, Path]]:
    """A directory as `kills.prepare` fills it, and one to work in."""
    with tempfile.TemporaryDirectory(prefix="fewset-kills-") as folder:
        place = Path(folder) / "place"
        child = os.fork()  # what has computed cannot be forked again
        if child == 0:
            kills.prepare(place)
            os._exit(0)
        os.waitpid(child, 0)
        yield place, Path(folder)


def _race(given: Options) -> int:  # noqa: ARG001
    with _prepared() as (place, folder):
        return int(bool(races.run_races(place, folder)))


def _kill(given: Options) -> int:
    made_by = records.origin()
    with _prepared() as (place, folder):
        done, wrong = kills.kill_jobs(place, folder, given.kills, given.seed)
    print(f"{sum(done.values())} kills, {len(wrong)} wrong")
    _keep(records.KillRecord(**made_by, seed=given.seed, kills=dict(done), wrong=tuple(wrong)), given.record)
    return int(bool(wrong))


def _keep(record: records.FuzzRecord | records.KillRecord, file: Path | None) -> None:
    if file is not None:
        records.write(record, file)
        print(f"record: {file}")


def _page(given: Options) -> int:
    print(f"page: {page.make_page(given.directory, given.page, given.check)}")
    return 0


def _replay(given: Options) -> int:
    campaign.replay(given.reader, given.number, given.seed)
    return 0


def _worker(given: Options) -> int:
    serve(Room(given.room), given.seed)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Damaged input, and kills.")
    commands = parser.add_subparsers(required=True)

    def add(name: str, act: Callable[[Options], int], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(act=act)
        if name not in ("page", "races"):
            command.add_argument("--seed", type=int, default=0)
        return command

    run = add("run", _run, "all readers in turns on damaged input, for so many minutes")
    run.add_argument("--minutes", type=float, default=1.0)
    run.add_argument("--processes", type=int, default=None, help="default: one a core")
    run.add_argument("--first", type=int, default=1, help="the number of each reader's first input")
    run.add_argument("--only", nargs="*", default=[], metavar="READER")
    run.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="where they are saved")
    add("races", _race, "two commands at once in one place: each ends right, or refuses in one line")
    kill = add("kills", _kill, "kill commands at random moments, and compare what they write")
    kill.add_argument("--kills", type=int, default=50)
    for command in (run, kill):
        command.add_argument("--record", type=Path, default=None, help="write the record (JSON) to this file")
    replay = add("replay", _replay, "one input again, in this process; below 0 nothing is damaged")
    replay.add_argument("reader")
    replay.add_argument("number", type=int)
    worker = add("worker", _worker, "what `run` starts")
    worker.add_argument("room", type=Path)
    made = add("page", _page, "make the page of the records")
    made.add_argument("directory", type=Path, nargs="?", default=ROOT / "results" / "reliability")
    made.add_argument("page", type=Path, nargs="?", default=ROOT / "docs" / "reliability.md")
    made.add_argument("--check", action="store_true", help="only check that the page is up to date")
    given = parser.parse_args()
    act: Callable[[Options], int] = given.act
    return act(given)


if __name__ == "__main__":
    sys.exit(main())
