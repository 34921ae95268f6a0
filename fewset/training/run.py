"""A run directory: what it holds, when it may be written to, and the checkpoint inside it."""

import json
import time
from pathlib import Path
from typing import Any, Literal

import torch

from fewset import distributed
from fewset.errors import UserError
from fewset.files import replacing, write_json, write_text
from fewset.machine import describe

RECIPE, WEIGHTS, RESULT = "recipe.toml", "model.safetensors", "result.json"
METRICS, LOG, ENVIRONMENT = "metrics.jsonl", "log.txt", "environment.json"
CHECKPOINT = Path("checkpoint") / "last.pt"

State = Literal["new", "unfinished", "finished"]


class RunDirectory:
    """The directory of one run. A finished run is never overwritten unless asked to."""

    def __init__(self, path: Path) -> None:
        self.path = path

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

    # Of several processes only the first writes.

    def log(self, text: str) -> None:
        if not distributed.main():
            return
        with (self.path / LOG).open("a", encoding="utf-8") as log:
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        if distributed.main():
            with replacing(self.path / CHECKPOINT) as temporary:
                torch.save(state, temporary)

    def load_checkpoint(self) -> dict[str, Any] | None:
        path = self.path / CHECKPOINT
        if not path.exists():
            return None
        state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
        return state

    def write_metrics(self, rows: list[dict[str, Any]]) -> None:
        if distributed.main():
            write_text(self.path / METRICS, "".join(json.dumps(row) + "\n" for row in rows))
