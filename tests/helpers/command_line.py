"""Commands as a user types them, called in this process or in a new one; and recipes made tiny."""

import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner, Result

from fewset.cli.app import app
from fewset.core.errors import UserError
from fewset.io.os_errors import as_user_error

TINY = [
    "data.set=tiny",
    "model.backbone_options.input_size=16",
    "evaluate.way=3",
    "evaluate.query=3",
    "evaluate.tasks=13",
]
PRETRAIN = [*TINY, "pretrain.epochs=1", "pretrain.validation_query=3", "pretrain.validation_tasks=5"]
TRAIN = [
    *TINY,
    "train.epochs=1",
    "train.tasks_per_epoch=2",
    "train.way=3",
    "train.query=2",
    "train.validation_way=3",
    "train.validation_query=2",
    "train.validation_tasks=5",
]


def options(overrides: list[str]) -> list[str]:
    return [word for override in overrides for word in ("--set", override)]


def fewset(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def succeed(*words: object) -> str:
    result = fewset(*words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def fail(*words: object) -> str:
    """The message of a command that the user got wrong."""
    result = fewset(*words)
    error = result.exception
    told = error if error is None or isinstance(error, UserError) else as_user_error(error)
    if told is not None:  # `main` prints it on one line and exits with 2
        return str(told)
    assert result.exit_code == 2, result.output
    return result.output


def fewset_in_a_new_process(*words: object, beside: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command with nothing loaded before; `beside` is a directory of packages that are installed too."""
    paths = [*([str(beside)] if beside else []), str(Path(__file__).parents[2])]
    return subprocess.run(
        [sys.executable, "-m", "fewset", *map(str, words)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
