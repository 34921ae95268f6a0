"""A run directory: what it holds, when it may be written to, and the checkpoint inside it."""

from typing import Literal

from fewset.runtime.errors import UserError
from fewset.runtime.files import write_json, write_text
from fewset.runtime.machine import describe
from fewset.training.checkpoint import CHECKPOINT, LOG, METRICS, TrainingFiles

RECIPE, WEIGHTS, RESULT = "recipe.toml", "model.safetensors", "result.json"
ENVIRONMENT = "environment.json"

State = Literal["new", "unfinished", "finished"]


class RunDirectory(TrainingFiles):
    """The directory of one run. A finished run is never overwritten unless asked to."""

    @property
    def state(self) -> State:
        if (self.path / RESULT).exists():
            return "finished"
        return "unfinished" if (self.path / RECIPE).exists() else "new"

    def begin(self, recipe: str, resume: bool, force: bool, **environment: object) -> None:
        """Make the directory ready to be written to, or refuse with the remedy.

        Starting anew removes only the files that a run writes, never the directory. `environment` is what
        there is to say of it besides the machine.
        """
        if self.state == "new":
            if self.path.exists() and any(self.path.iterdir()):
                raise UserError(
                    f"{self.path} is not empty and not a run; choose another directory with --out"
                )
        elif force:
            for name in (RESULT, WEIGHTS, METRICS, LOG, ENVIRONMENT, RECIPE, CHECKPOINT):
                (self.path / name).unlink(missing_ok=True)
        elif not resume:
            go_on = "" if self.state == "finished" else "--resume goes on, "
            raise UserError(
                f"{self.path} holds a run that is {self.state}: {go_on}--force starts anew, "
                "--out names another directory"
            )
        elif (self.path / RECIPE).read_text(encoding="utf-8") != recipe:
            raise UserError(
                f"the recipe differs from {self.path / RECIPE}: resume with the same recipe and the same "
                "--set, or start anew with --force"
            )
        if self.state == "new":
            write_text(self.path / RECIPE, recipe)
        write_json(self.path / ENVIRONMENT, {**describe(), **environment})
