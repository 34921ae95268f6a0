"""What experiment trackers hold, read back from their own files."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Held(NamedTuple):
    """The last run in a tracker: values by (name, step), each as often as it occurs; the recipe; the end."""

    values: dict[tuple[str, int], list[float]]
    recipe: dict[str, str]
    ended: bool


def in_tensorboard(folder: Path) -> Held:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    values: dict[tuple[str, int], list[float]] = {}
    for name in events.Tags()["scalars"]:
        for point in events.Scalars(name):
            values.setdefault((name, point.step), []).append(point.value)
    (text,) = events.Tensors("recipe/text_summary")
    lines = text.tensor_proto.string_val[0].decode().splitlines()
    recipe = dict(line.strip().split(" = ", 1) for line in lines)
    return Held(values, recipe, "_hparams_/session_end_info" in events.summary_metadata)


def in_mlflow(folder: Path) -> Held:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("fewset")
    runs = client.search_runs([experiment.experiment_id])
    values: dict[tuple[str, int], list[float]] = {}
    for name in runs[0].data.metrics:
        for point in client.get_metric_history(runs[0].info.run_id, name):
            values.setdefault((name, point.step), []).append(point.value)
    return Held(values, dict(runs[0].data.params), runs[0].info.status == "FINISHED")


def in_wandb(folder: Path) -> Held:
    """From the files of an offline run."""
    from wandb.proto import wandb_internal_pb2

    values: dict[tuple[str, int], list[float]] = {}
    recipe: dict[str, str] = {}
    ended, last = False, -1
    file = max(folder.glob("wandb/offline-run-*/*.wandb"), key=lambda file: file.stat().st_mtime_ns)
    _wait_until_written(file)
    for data in _records(file.read_bytes()):
        record = wandb_internal_pb2.Record.FromString(data)
        if record.HasField("run"):
            recipe = {each.key: each.value_json for each in record.run.config.update}
        elif record.HasField("history"):
            row = {"/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            last = row["_step"]
            for name, value in row.items():
                values.setdefault((name, last), []).append(value)
        elif record.HasField("summary"):
            for item in record.summary.update:
                if item.key.startswith("test_"):  # not what W&B itself sums up
                    values.setdefault((item.key, last), []).append(json.loads(item.value_json))
        elif record.HasField("exit"):
            ended = record.exit.exit_code == 0
    return Held(values, recipe, ended)


def _wait_until_written(file: Path) -> None:
    """A process of W&B's own writes the file, and may end a moment after the run."""
    from wandb.proto import wandb_internal_pb2

    end = time.monotonic() + 60
    while time.monotonic() < end:
        parsed = [wandb_internal_pb2.Record.FromString(data) for data in _records(file.read_bytes())]
        if any(record.HasField("exit") for record in parsed):
            return
        time.sleep(0.1)
    raise TimeoutError(f"{file} has no end")


def _records(content: bytes) -> Iterator[bytes]:
    """The records of a file that is written as LevelDB writes its logs, after seven bytes of W&B's own."""
    block, whole, place = 2**15, b"", 7
    while place + 7 <= len(content):
        if block - place % block < 7:
            place += block - place % block
            continue
        size, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        whole += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # a whole one, or the last part of one
            yield whole
            whole = b""


HELD: dict[str, Callable[[Path], Any]] = {
    "mlflow": in_mlflow,
    "tensorboard": in_tensorboard,
    "wandb": in_wandb,
}
