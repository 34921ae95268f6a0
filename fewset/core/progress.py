"""Progress bars: on a terminal only, and in the first process of torchrun only."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(
    title: str, total: int | None, done: int = 0, shown: bool = True
) -> Iterator[Callable[..., None]]:
    """A bar for `total` units of work; it yields a function to call after each unit, `advance(by, note)`.

    A resumed run has `done` units before the start. A total of None is not known yet.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    shown = shown and console.file.isatty() and os.environ.get("RANK", "0") == "0"
    title_column, note_column = TextColumn("{task.description}"), TextColumn("{task.fields[note]}")
    columns = (title_column, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), note_column)
    with Progress(*columns, console=console, transient=True, disable=not shown) as bar:
        task = bar.add_task(title, total=total, completed=done, note="")

        def advance(by: int = 1, note: str = "") -> None:
            bar.update(task, advance=by)
            if note:
                bar.update(task, note=note)

        yield advance
