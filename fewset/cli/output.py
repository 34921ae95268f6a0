"""Printing: text, tables, results of runs; errors and warnings on one line each."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from fewset.compute import distributed
from fewset.core.names import one_line

if TYPE_CHECKING:
    from fewset.experiments.result import Result, StoredScore

console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)  # names are shown as they are

STDOUT = Path("-")
"""What stands for standard output among files."""


def take_any_terminal() -> None:
    """Print characters that the terminal cannot show, such as "±" in ASCII, as question marks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # it may be closed, or a test's
            stream.reconfigure(errors="replace")


def echo(text: str) -> None:
    """Print lines of text; control characters, which names of files may have, become question marks."""
    console.print("\n".join(map(one_line, _encodable(text).split("\n"))), markup=False)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines for programs, with their ends, as UTF-8 on every system; only the main process does."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="")
    for line in lines:
        if distributed.is_main_process():
            sys.stdout.write(line)
            sys.stdout.flush()


def print_error(error: Exception | str) -> None:
    _print_aside("[red]error:[/red]", str(error))


def print_warning(text: str) -> None:
    _print_aside("[yellow]warning:[/yellow]", text)


@contextmanager
def resumable(how_to_continue: str) -> Iterator[None]:
    """Ctrl-C in this block prints these words."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(how_to_continue) from None


def print_stopped(how_to_continue: str) -> None:
    _print_aside("stopped;" if how_to_continue else "stopped", how_to_continue)


def _print_aside(word: str, text: str) -> None:
    """Print one line to stderr; a program may read stdout."""
    shown = escape(one_line(" ".join(_encodable(text).split())))
    Console(stderr=True, highlight=False, soft_wrap=True, emoji=False).print(f"{word} {shown}".rstrip())


def _encodable(text: str) -> str:
    """The text without lone surrogates, which names of files on Linux may have."""
    return text.encode(errors="replace").decode()


def make_table(*columns: str, title: str | None = None) -> Table:
    """A table whose long cells are wrapped in a narrow terminal, never cut off."""
    return Table(*(Column(column, overflow="fold") for column in columns), title=title)


def begin_group(table: Table, name: str) -> None:
    """Begin a group of rows with its name."""
    table.add_section()
    table.add_row(Text(name, style="bold"))


def print_result(result: "Result") -> None:
    """A result for people: the headline last."""
    if result.left_out:
        echo(f"left out, with too few items: {', '.join(result.left_out)}")
    if result.before:
        echo(f"before adaptation: {_percent(result.before)}")
    for name, score in result.scores.items():
        echo(f"{name.replace('_', ' ')}: {_percent(score)}")
    adds = result.fields.get("set_adds")
    if adds:
        echo(f"the set adds: {100 * adds['mean']:+.2f}{_half(adds['ci95'])} points, compared with alone")
    for name, text in result.notes.items():
        echo(f"{name}: {text}")
    setting = "" if result.setting == "standard" else f"{result.setting}, "
    tasks = f"{result.way}-way {result.shot}-shot, {result.tasks:,} tasks"
    place = f"{result.data}/{result.split}"
    echo(f"{result.method} on {place}, {setting}{tasks}: {_percent(result.score_of(''))}")


def _percent(score: "StoredScore") -> str:
    return f"{100 * score.mean:.2f}{_half(score.ci95)} %"


def _half(ci95: float | None) -> str:
    return "" if ci95 is None else f" ± {100 * ci95:.2f}"
