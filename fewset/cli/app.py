"""The command line: it turns words into objects, calls the library, and prints the results.

A new command is one file. A file of this package that has a `typer.Typer` called `commands` is a group of
commands: with a name it is a command with parts (`fewset data import`), without one its commands stand at the
top. `PANEL` is the panel of the help in which they are shown.
"""

import os
import sys
import traceback
import warnings
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import fewset.cli
from fewset import __version__
from fewset.cli.output import echo, print_error, print_stopped, print_warning, take_any_terminal
from fewset.compute import distributed
from fewset.core.errors import UserError
from fewset.core.extras import as_missing_extra
from fewset.io.os_errors import as_user_error

# The panels of the help from top to bottom, and the files that come first in theirs; others follow by name.
_PANELS = ("Classify", "Experiments", "Models", "Data", "Paper", "Speed")
_FIRST = ("fit", "predict", "info", "demo", "recipes", "train", "evaluate")
_INTERRUPTED = 130  # the exit code of a process that Ctrl-C ended


class _Commands(TyperGroup):
    """Ctrl-C prints one line, in which a command may say how to continue."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            if distributed.is_main_process():
                print_stopped(str(interrupt))
            raise typer.Exit(_INTERRUPTED) from None


app = typer.Typer(
    name="fewset",
    cls=_Commands,
    help="Few-shot image recognition by adapting embeddings with set-to-set functions (FEAT).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Entry point: a user's error is one line and exit code 2, a defect of fewset keeps its traceback.

    Under torchrun this is one of several processes; only the main process prints a user's error.
    """
    take_any_terminal()
    with warnings.catch_warnings(), distributed.session():
        warnings.showwarning = _show_warning
        try:
            app(prog_name="fewset")
        except UserError as error:
            if distributed.is_main_process():
                print_error(error)
            sys.exit(2)
        except distributed.LostProcess:
            raise
        except BrokenPipeError:  # the reader of the output, such as head, has ended
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except Exception as error:
            user_error = as_user_error(error) or as_missing_extra(error)
            if user_error is not None:
                print_error(user_error)
                sys.exit(2)
            traceback.print_exc()
            print_error(
                "this is a defect of fewset: please report it to its issue tracker, with the command and the "
                "text above"
            )
            sys.exit(1)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    if distributed.is_main_process():
        print_warning(str(message))


def _version(asked: bool) -> bool:
    if asked:
        echo(f"fewset {__version__}")
        raise typer.Exit
    return asked


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


def _groups() -> list[ModuleType]:
    """The files of this package that have commands, in the order of the help."""
    names = {module.name for module in iter_modules(fewset.cli.__path__)} - {"app"}
    modules = [import_module(f"fewset.cli.{name}") for name in sorted(names)]
    return sorted((module for module in modules if hasattr(module, "commands")), key=_place)


def _place(group: ModuleType) -> tuple[int, int]:
    name = group.__name__.rpartition(".")[2]
    return [*_PANELS, group.PANEL].index(group.PANEL), [*_FIRST, name].index(name)


for group in _groups():
    if not isinstance(group.commands.info.name, str):  # its commands stand at the top, each in the panel
        for command in group.commands.registered_commands:
            command.rich_help_panel = group.PANEL
    app.add_typer(group.commands, rich_help_panel=group.PANEL)
