"""`python -m tests.fuzz`: run, replay, kills, races, page."""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fewset.io.files import write_json, write_text
from tests.fuzz import campaign, kills, page, races

Options = argparse.Namespace


def _run(given: Options) -> int:
    options = {name: getattr(given, name) for name in ("processes", "seed", "first", "failures")}
    record = campaign.run(given.minutes, **options)
    wrong = {name: counts["wrong"] for name, counts in record["readers"].items() if counts["wrong"]}
    print(f"{record['minutes']} minutes, wrong: {wrong or 0}")
    if given.record:
        write_json(given.record, record)
    return int(bool(wrong))


@contextmanager
def _prepared() -> Iterator[tuple[Path, Path]]:
    """A directory as `kills.prepare` fills it, and one to work in."""
    with tempfile.TemporaryDirectory(prefix="fewset-kills-") as folder:
        place = Path(folder) / "place"
        child = os.fork()  # a process that has computed cannot be forked again
        if child == 0:
            kills.prepare(place)
            os._exit(0)
        os.waitpid(child, 0)
        yield place, Path(folder)


def _race(given: Options) -> int:  # noqa: ARG001
    with _prepared() as (place, folder):
        return int(bool(races.run_races(place, folder)))


def _kill(given: Options) -> int:
    origin = page.made_by()
    with _prepared() as (place, folder):
        done, wrong = kills.kill_jobs(place, folder, given.kills, given.seed)
    print(f"{sum(done.values())} kills, {len(wrong)} wrong")
    if given.record:
        write_json(given.record, {**origin, "seed": given.seed, "kills": done, "wrong": wrong})
    return int(bool(wrong))


def _page(given: Options) -> int:  # noqa: ARG001
    write_text(page.PAGE, page.reliability_page())
    return 0


def _replay(given: Options) -> int:
    campaign.replay(given.reader, given.index, given.seed)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Damaged input, and kills.")
    commands = parser.add_subparsers(required=True)

    def add(name: str, act: Callable[[Options], int], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(act=act)
        command.add_argument("--seed", type=int, default=0)
        return command

    run = add("run", _run, "all readers in turns on damaged input, for some minutes")
    run.add_argument("--minutes", type=float, default=1.0)
    run.add_argument("--processes", type=int, default=os.cpu_count(), help="default: one a core")
    run.add_argument("--first", type=int, default=1, help="the index of each reader's first input")
    run.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="where they are saved")
    add("races", _race, "two commands at once in one place: each ends right, or with one line")
    kill = add("kills", _kill, "kill commands at random moments, and compare the files that they write")
    kill.add_argument("--kills", type=int, default=50)
    for command in (run, kill):
        command.add_argument("--record", type=Path, default=None, help="write the record (JSON) to this file")
    replay = add("replay", _replay, "one input again, in this process; below index 0 nothing is damaged")
    replay.add_argument("reader")
    replay.add_argument("index", type=int)
    add("page", _page, "make the page of the records")
    given = parser.parse_args()
    act: Callable[[Options], int] = given.act
    return act(given)


if __name__ == "__main__":
    sys.exit(main())
