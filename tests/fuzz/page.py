"""docs/reliability.md: its two tables are made from the records in results/reliability."""

import json
from pathlib import Path
from typing import Any

from fewset.compute.machine import describe
from fewset.report.tables import Column, Table, markdown_text

ROOT = Path(__file__).parents[2]
RECORDS, PAGE = ROOT / "results" / "reliability", ROOT / "docs" / "reliability.md"
Record = dict[str, Any]


def made_by() -> Record:
    """The commit and the versions for a record; asked before a command writes files into the tree."""
    versions: Record = describe()
    return {"commit": str(versions.pop("commit")), "versions": versions}


def reliability_page() -> str:
    """The page as it is, with the tables of the records between its marks."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in {"fuzz": _fuzz_table, "kills": _kill_table}.items():
        record = json.loads((RECORDS / f"{name}.json").read_text())
        before, mark, rest = text.partition(f"<!-- {name}.json -->\n")
        _, end, after = rest.partition("<!-- end -->\n")
        text = f"{before}{mark}\n{markdown_text(table(record))}\n{end}{after}"
    return text


def _fuzz_table(record: Record) -> Table:
    rows, total, wrong = [], 0, 0
    for name, counts in record["readers"].items():
        bad = counts["wrong"]
        inputs = counts["accepted"] + counts["rejected"] + sum(bad.values())
        total, wrong = total + inputs, wrong + sum(bad.values())
        shown = [f"{count:,}" for count in (inputs, counts["accepted"], counts["rejected"])]
        kinds = ", ".join(f"{kind}: {count}" for kind, count in bad.items()) or "0"
        rows.append((name, *shown, kinds, f"{counts['slowest_seconds']:.2f}"))
    return Table(
        f"{total:,} inputs, {wrong:,} of them wrong",
        _columns("Reader", "Inputs", "Accepted", "Rejected", "Wrong", "Slowest, s"),
        tuple(rows),
        (
            f"{record['minutes']:g} minutes, processes: {record['processes']}, seed {record['seed']}.",
            _made_by(record),
        ),
    )


def _kill_table(record: Record) -> Table:
    rows = tuple((name, str(count)) for name, count in record["kills"].items())
    wrong = f"Wrong after them: {'; '.join(record['wrong']) or 'nothing'}."
    title = f"{sum(record['kills'].values())} kills"
    return Table(title, _columns("Command", "Kills"), rows, (wrong, _made_by(record)))


def _columns(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, name.lower()) for name in names)


def _made_by(record: Record) -> str:
    changed = "+changes" if record["commit"].endswith("+changes") else ""
    versions = record["versions"]
    return (
        f"Made by commit {record['commit'][:10]}{changed}, Python {versions['python']}, "
        f"torch {versions['torch']}, {versions['platform']}."
    )
