"""TensorBoard: event files in the run directory. `tensorboard --logdir runs` shows those of all runs."""

from collections.abc import Mapping
from typing import Any

from fewset.core.extras import import_extra
from fewset.experiments.trackers import TrackedRun, register_tracker


@register_tracker("tensorboard")
class TensorBoard:
    """Scalars by step; at the end the recipe and the score, as hyperparameters to compare runs by."""

    def __init__(self) -> None:
        self._library = import_extra("torch.utils.tensorboard", "tensorboard")
        self._writer: Any = None
        self._recipe: dict[str, Any] = {}
        self._step = 0

    def start(self, run: TrackedRun) -> None:
        for earlier in run.folder.glob("events.out.tfevents.*"):  # a resumed run gives all rows again
            earlier.unlink()
        self._writer = self._library.SummaryWriter(str(run.folder))
        self._recipe = dict(run.recipe)
        lines = "\n".join(f"    {key} = {value!r}" for key, value in run.recipe.items())
        self._writer.add_text("recipe", lines, 0)

    def row(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()
        self._step = step

    def finish(self, result: Mapping[str, float] | None) -> None:
        if result is not None:
            for name, value in result.items():
                self._writer.add_scalar(name, value, self._step)
            for part in self._library.summary.hparams(self._recipe, dict(result)):
                self._writer.file_writer.add_summary(part)
        self._writer.close()
