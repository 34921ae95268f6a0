"""`python -m tests.fuzz`: run, replay, kills, races, page."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from fewset.io.files import write_json, write_text
from tests.fuzz import campaign, kills, page

Options = argparse.Namespace


def _run(given: Options) -> int:
    record = campaign.run(given.minutes, given.processes, given.seed)
    wrong = {name: counts["wrong"] for name, counts in record["readers"].items() if counts["wrong"]}
    print(f"{record['minutes']} minutes, wrong: {wrong or 0}")
    if given.record:
        write_json(given.record, record)
    return int(bool(wrong))


def _replay(given: Options) -> int:
    campaign.replay(given.reader, given.index, given.seed)
    return 0


def _kill(given: Options) -> int:
    origin = page.made_by()
    with kills.prepared() as place:
        done, wrong = kills.kill_jobs(place, given.kills, given.seed)
    print(f"{sum(done.values())} kills, {len(wrong)} wrong")
    if given.record:
        write_json(given.record, {**origin, "seed": given.seed, "kills": done, "wrong": wrong})
    return int(bool(wrong))


def _race(given: Options) -> int:  # noqa: ARG001
    with kills.prepared() as place:
        kills.race(place)
    return 0


def _page(given: Options) -> int:  # noqa: ARG001
    write_text(page.PAGE, page.reliability_page())
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
    replay = add("replay", _replay, "one input again, in this process; below index 0 nothing is damaged")
    replay.add_argument("reader")
    replay.add_argument("index", type=int)
    kill = add("kills", _kill, "kill commands at random moments, and compare the files that they write")
    kill.add_argument("--kills", type=int, default=50)
    for command in (run, kill):
        command.add_argument("--record", type=Path, default=None, help="write the record (JSON) to this file")
    add("races", _race, "two commands at once in one place: each ends right, or with one line")
    add("page", _page, "make the page of the records")
    given = parser.parse_args()
    act: Callable[[Options], int] = given.act
    return act(given)


if __name__ == "__main__":
    sys.exit(main())
