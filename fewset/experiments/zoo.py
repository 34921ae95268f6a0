"""Released models: trained weights that come with the package and are known by name.

A released model is a directory `NAME/` with files of the run that made it: its recipe, its weights and their
digest, which is checked whenever they are loaded.
"""

import shutil
from pathlib import Path

from fewset.compute import distributed
from fewset.core.errors import UserError, refuse_unknown
from fewset.experiments.run_directory import RECIPE, WEIGHTS
from fewset.io.files import digest_path, replacing_directory
from fewset.io.locks import in_turn
from fewset.io.packaged import packaged_directory
from fewset.io.paths import user_path

_FILES = (RECIPE, WEIGHTS)


def list_models() -> list[str]:
    """The names of the released models, which come with the package and which `load` takes.

    Returns:
        The names, sorted.

    Example:
        >>> import fewset
        >>> "miniimagenet-conv4-feat-1shot" in fewset.list_models()
        True
    """
    return list(released_models())


def released_models() -> dict[str, Path]:
    """The directories of the released models by name."""
    return {
        file.parent.name: file.parent for file in sorted(packaged_directory("weights").glob(f"*/{WEIGHTS}"))
    }


def find_model(source: str | Path) -> Path:
    """A run directory or weights file by its path, or else a released model by its name."""
    path = user_path(source)
    if path.exists():
        return path
    models = released_models()
    refuse_unknown("run directory, weights file or released model", str(source), models)
    return models[str(source)]


def run_of(source: Path, runs: Path) -> Path:
    """A run directory to write results to: that of a path, or a copy of a released model in `runs`."""
    model = find_model(source)
    if model == user_path(source):
        return model
    run = runs / model.name
    distributed.on_main_process(lambda: copy_model(model, run))
    return run


def is_copy(run: Path, model: Path) -> bool:
    """Whether a run directory has the weights and the recipe of a released model."""
    return all(
        (run / file).is_file() and (run / file).read_bytes() == (model / file).read_bytes() for file in _FILES
    )


def copy_model(model: Path, run: Path) -> None:
    """Make a run directory of a released model; a copy that is there already stays as it is."""
    with in_turn(run.with_name(f".{run.name}.lock")):
        if not run.exists():
            with replacing_directory(run) as copy:
                for file in (*_FILES, digest_path(model / WEIGHTS).name):
                    if (model / file).exists():
                        shutil.copyfile(model / file, copy / file)
    if not is_copy(run, model):
        raise UserError(
            f"{run} is not a copy of the released model {model.name!r}, but where one would go: for what is "
            f"there say {run}, for the released model move it away first"
        )
