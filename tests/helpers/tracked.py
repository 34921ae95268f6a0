"""What experiment trackers hold, read back from their own files."""

import json
import time
from collections import defaultdict
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
    values = defaultdict(list)
    for name in events.Tags()["scalars"]:
        for point in events.Scalars(name):
            values[name, point.step].append(point.value)
    (text,) = events.Tensors("recipe/text_summary")
    lines = text.tensor_proto.string_val[0].decode().splitlines()
    recipe = dict(line.strip().split(" = ", 1) for line in lines)
    return Held(values, recipe, "_hparams_/session_end_info" in events.summary_metadata)


def in_mlflow(folder: Path) -> Held:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("fewset")
    run = client.search_runs([experiment.experiment_id])[0]
    values = defaultdict(list)
    for name in run.data.metrics:
        for point in client.get_metric_history(run.info.run_id, name):
            values[name, point.step].append(point.value)
    return Held(values, dict(run.data.params), run.info.status == "FINISHED")


def in_wandb(folder: Path) -> Held:
    """From the files of an offline run."""
    file = max(folder.glob("wandb/offline-run-*/*.wandb"), key=lambda file: file.stat().st_mtime_ns)
    records = list(_records(file.read_bytes()))
    end = time.monotonic() + 60
    while not any(record.HasField("exit") for record in records):  # W&B's own process may end after the run
        assert time.monotonic() < end, f"{file} has no end"
        time.sleep(0.1)
        records = list(_records(file.read_bytes()))

    values, recipe, ended, last = defaultdict(list), {}, False, -1
    for record in records:
        if record.HasField("run"):
            recipe = {each.key: each.value_json for each in record.run.config.update}
        elif record.HasField("history"):
            row = {"/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            last = row["_step"]
            for name, value in row.items():
                values[name, last].append(value)
        elif record.HasField("summary"):
            for item in record.summary.update:
                if item.key.startswith("test_"):  # not what W&B itself sums up
                    values[item.key, last].append(json.loads(item.value_json))
        elif record.HasField("exit"):
            ended = record.exit.exit_code == 0
    return Held(values, recipe, ended)


def _records(content: bytes) -> Iterator[Any]:
    """The records of a file that is written as LevelDB writes its logs, after seven bytes of W&B's own."""
    from wandb.proto.wandb_internal_pb2 import Record

    block, whole, place = 2**15, b"", 7
    while place + 7 <= len(content):
        if block - place % block < 7:
            place += block - place % block
            continue
        size, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        whole += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # a whole one, or the last part of one
            yield Record.FromString(whole)
            whole = b""


HELD: dict[str, Callable[[Path], Held]] = {
    "mlflow": in_mlflow,
    "tensorboard": in_tensorboard,
    "wandb": in_wandb,
}
