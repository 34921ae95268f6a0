"""MLflow: a database in the run directory, or the server that `MLFLOW_TRACKING_URI` names."""

import os
import time
from collections.abc import Mapping
from typing import Any

from fewset.core.extras import import_extra
from fewset.experiments.trackers import TrackedRun, register_tracker


@register_tracker("mlflow")
class MLflow:
    """Parameters, and metrics by step, of a run in the experiment `MLFLOW_EXPERIMENT_NAME` or "fewset"."""

    def __init__(self) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read by the import
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
        self._library = import_extra("mlflow", "mlflow")
        self._store = import_extra("mlflow.store.tracking.sqlalchemy_store", "mlflow")
        self._client: Any = None
        self._id = ""
        self._step = 0

    def start(self, run: TrackedRun) -> None:
        run.folder.mkdir(parents=True, exist_ok=True)
        address = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{run.folder.resolve() / 'mlflow.db'}"
        self._client = self._library.MlflowClient(tracking_uri=address)
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "fewset"
        experiment = self._client.get_experiment_by_name(name)
        number = experiment.experiment_id if experiment else self._client.create_experiment(name)
        self._id = self._client.create_run(number, run_name=run.name).info.run_id
        for key, value in run.recipe.items():
            self._client.log_param(self._id, key, value)

    def row(self, step: int, values: Mapping[str, float]) -> None:
        now = round(1000 * time.time())
        metric = self._library.entities.Metric
        self._client.log_batch(self._id, [metric(name, value, now, step) for name, value in values.items()])
        self._step = step

    def finish(self, result: Mapping[str, float] | None) -> None:
        if result is not None:
            self.row(self._step, result)
        self._client.set_terminated(self._id, "KILLED" if result is None else "FINISHED")
