"""What a command does first."""

from collections.abc import Iterable
from pathlib import Path


def start(plugins: Iterable[Path] | None = None) -> None:
    """Tune the process, which must come before the first import of torch, then load the plugins.

    For every command that computes; it calls this before it imports anything of the library.
    """
    from fewset.compute.machine import tune

    tune()
    load_plugins(plugins)


def load_plugins(plugins: Iterable[Path] | None) -> None:
    """Load the files that the user named; all that a command needs which does not compute."""
    for plugin in plugins or ():
        from fewset.experiments.plugins import load_plugin

        load_plugin(plugin)
