"""What every command that computes does first."""

from pathlib import Path


def start(plugins: list[Path] | None = None) -> None:
    """Tune the process, then load the plugins; before the first import of torch."""
    from fewset.runtime.machine import tune

    tune()
    for plugin in plugins or []:
        from fewset.experiments.plugins import load_plugin

        load_plugin(plugin)
