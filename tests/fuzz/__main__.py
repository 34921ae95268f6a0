"""`python -m tests.fuzz`: run, replay, kills, races, page."""

import argparse
import os
import sys
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


COMMANDS = {"run": _run, "replay": _replay, "kills": _kill, "races": _race, "page": _page}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description="run: all readers in turns on damaged input. replay: one input again; below index 0 "
        "nothing is damaged. kills: kill commands at random moments, and compare the files that they write. "
        "races: two commands at once in one place. page: make the page of the records.",
    )
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("reader", nargs="?", help="of `replay`")
    parser.add_argument("index", nargs="?", type=int, help="of `replay`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="default: one a core")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--record", type=Path, help="write the record (JSON) to this file")
    given = parser.parse_args()
    return COMMANDS[given.command](given)


if __name__ == "__main__":
    sys.exit(main())
