"""Progress bars: shown on a terminal, silent elsewhere, and in all processes of torchrun but the first."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(title: str, total: int, done: int = 0, shown: bool = True) -> Iterator[Callable[..., None]]:
    """A bar for `total` units of work; call what it yields as units are done.

    `done` units count as done before the start (a resumed run), `note` is shown behind the bar.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(
        *columns,
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal and os.environ.get("RANK", "0") == "0"),
    ) as bar:
        task = bar.add_task(title, total=total, completed=done, note="")

        def advance(by: int = 1, note: str = "") -> None:
            bar.update(task, advance=by)
            if note:
                bar.update(task, note=note)

        yield advance
