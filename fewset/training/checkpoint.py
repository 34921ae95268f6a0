"""The files that training writes into its directory: checkpoint, metrics of each epoch, log."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fewset.compute import distributed
from fewset.core.errors import UserError
from fewset.io.files import check_digest, replacing_with_digest, write_text
from fewset.io.paths import inside
from fewset.io.reading import regular_file

CHECKPOINT = Path("checkpoint") / "last.pt"
METRICS, LOG = "metrics.jsonl", "log.txt"


class TrainingFiles:
    """The files of a training in the directory `path`. Of several processes only the main one writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.follow: Callable[[list[dict[str, Any]]], None] = lambda _: None
        """Called with all rows of the metrics whenever they are written."""

    def log(self, text: str) -> None:
        """Add a line to the log, with the time."""
        if not distributed.is_main_process():
            return
        with regular_file(inside(self.path, LOG)).open("a", encoding="utf-8") as log:
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        """Replace the checkpoint by this state."""
        import torch  # here, since importing the names of the files should take no time

        if distributed.is_main_process():
            directory = inside(self.path, CHECKPOINT.parent)
            with replacing_with_digest(directory / CHECKPOINT.name) as temporary:
                torch.save(state, temporary)

    def load_checkpoint(self) -> dict[str, Any] | None:
        """The state of the last checkpoint, or None if there is none yet."""
        path = self.path / CHECKPOINT
        if not path.exists():
            return None
        import torch

        check_digest(path)
        try:
            state: dict[str, Any] = dict(torch.load(path, weights_only=True, map_location="cpu"))
        except Exception as error:  # a file that is no checkpoint makes PyTorch raise almost anything
            raise UserError(
                f"{path} is damaged or not a checkpoint ({type(error).__name__}); start again with --force"
            ) from None
        return state

    def write_metrics(self, rows: list[dict[str, Any]]) -> None:
        """Write one line of JSON for each epoch."""
        if distributed.is_main_process():
            write_text(self.path / METRICS, "".join(json.dumps(row) + "\n" for row in rows))
            self.follow(rows)
