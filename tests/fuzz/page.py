"""docs/reliability.md, made from the records in results/reliability alone."""

from pathlib import Path

from fewset.io.files import write_page
from fewset.report.tables import Column, Table, markdown_text
from tests.fuzz.records import FuzzRecord, KillRecord, read

_PROMISES = """# Reliability

`python -m tests.fuzz page` makes this page from the records in `results/reliability/`. No number is written
by hand.

## What is promised

- **No code from files.** Pickles are read by an interpreter that knows arrays, lists and names, and nothing
  else. Weights and classifiers are safetensors, which hold no code. Only a file given with `--plugin` is
  executed.
- **One line.** Whatever a file holds, a command ends with exit code 0, or with one line that says what is
  wrong and exit code 2. A traceback is a defect of fewset, and says where to report it.
- **Bounded.** Every size that a file claims is checked before memory is taken. Only regular files are read.
- **Nothing outside.** A command writes where it was told to, and into `$FEWSET_HOME`. Names from files
  never become paths elsewhere, and no link within a run, a collection or a folder of sorted photos is
  followed out of it.
- **Whole or not at all.** Files are written under another name and then renamed. Who reads one finds the
  old or the new content, never half of it.
- **No silent damage.** Image sets, weights, checkpoints and classifiers have their sha256 with them. What is
  not as it was written is refused. (Of large image sets this is looked at when their date has changed, and
  by `fewset data verify`.)
- **Resume to the bit.** A training that was killed at any moment and goes on with `--resume` ends with the
  same weights, to the bit, as one that was never stopped, on the same
  [number of processes](distributed.md) with as many threads each.
- **Equal numbers on any number of processes.** Evaluations give the same values for every task, to the bit.
"""
_FUZZ = """## Damaged input

`make fuzz MINUTES=30` draws damaged files and odd options from a seed and gives them to the commands: bits
flipped, files cut off, pieces repeated and swapped, lengths and types that are not so, deep nesting, names
that are paths, numbers that are none; in archives also within their members, packed again so that checksums
are right. "Accepted" is exit code 0, "refused" is one line and exit code 2. Anything else is wrong: a
traceback, another exit code, more than one line, a crash, more than {seconds} s of processor time or
{memory} GiB of memory, a file written outside, a set or run that is not as before, a program started, a
connection made, or damaged data that was accepted although its digest tells.
"""
_KILLS = """## Kills

`make kills KILLS=50` sends SIGKILL to commands at random moments, sometimes again while they go on, and
then lets them end. What they write is compared with an undisturbed run: the same files, the same bytes but
for the times that are recorded, and nothing left over.
"""
_RACES = """## Races

`python -m tests.fuzz races` lets two processes loose on one place: two `--resume` of one run, two
evaluations into one result, two first uses of a generated set, and a set that is deleted or replaced while a
training reads it. Each command ends with the files of an undisturbed one, or refuses in one line. A test does
the same.
"""


def make_page(directory: Path, page: Path, check: bool = False) -> Path:
    """Write the page of a directory, or with `check` only reject one that is not what the files give."""
    command = f"python -m tests.fuzz page {directory} {page}"
    return write_page(page, reliability_page(directory), command, check=check)


def reliability_page(directory: Path) -> str:
    fuzz, kills = read(FuzzRecord, directory / "fuzz.json"), read(KillRecord, directory / "kills.json")
    limits = {"seconds": fuzz.limit_seconds, "memory": fuzz.limit_bytes // 2**30}
    parts = [_PROMISES, _FUZZ.format(**limits), markdown_text(_fuzz_table(fuzz)), _KILLS]
    return "\n".join([*parts, markdown_text(_kill_table(kills)), _RACES])


def _fuzz_table(record: FuzzRecord) -> Table:
    names = ("Reader", "Inputs", "Accepted", "Refused", "Wrong", "Slowest, s")
    rows = [
        (
            name,
            f"{outcomes.inputs:,}",
            f"{outcomes.accepted:,}",
            f"{outcomes.refused:,}",
            ", ".join(f"{kind}: {count}" for kind, count in outcomes.wrong.items()) or "0",
            f"{outcomes.slowest_seconds:.2f}",
        )
        for name, outcomes in record.readers.items()
    ]
    return Table(
        f"{record.inputs:,} inputs, {record.wrong:,} of them wrong",
        tuple(Column(name, name.lower()) for name in names),
        tuple(rows),
        (
            f"{record.minutes:g} minutes, {record.processes} processes, seed {record.seed}.",
            f"Made by {_made_by(record)}",
        ),
    )


def _kill_table(record: KillRecord) -> Table:
    wrong = f"Wrong after them: {'; '.join(record.wrong) or 'nothing'}."
    return Table(
        f"{sum(record.kills.values())} kills",
        (Column("Command", "command"), Column("Kills", "kills")),
        tuple((name, str(count)) for name, count in record.kills.items()),
        (wrong, f"Made by {_made_by(record)}"),
    )


def _made_by(record: FuzzRecord | KillRecord) -> str:
    changed = "+changes" if record.commit.endswith("+changes") else ""
    return (
        f"commit {record.commit[:10]}{changed}, Python {record.versions['python']}, "
        f"torch {record.versions['torch']}, {record.versions['platform']}."
    )
