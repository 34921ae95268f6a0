"""Score every method on one set of embeddings; each number is written as soon as it is known.

A number is kept as long as its source, which stands beside it, is the same.
"""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from benchmarks.accuracy.embeddings import Embeddings
from benchmarks.accuracy.record import (
    FILE,
    TIMES,
    MethodNumber,
    MethodsRecord,
    MethodTimes,
    key_of,
    read_per_task,
    read_record_of,
    write_record,
)
from benchmarks.accuracy.rows import MethodRow
from fewset.compute.machine import describe
from fewset.core.parsing import lasting
from fewset.evaluation.class_means import fit_centre
from fewset.evaluation.controls import set_adds
from fewset.evaluation.scoring import evaluate
from fewset.experiments.build import build_model
from fewset.experiments.config import Options
from fewset.experiments.result import command_line
from fewset.io.files import write_json
from fewset.io.paths import inside
from fewset.models.model import FewShotModel
from fewset.tasks.scores import Score
from fewset.tasks.spec import TaskSpec
from fewset.training.checkpoint import TrainingFiles
from fewset.training.episodic import TrainConfig
from fewset.training.feature_training import FeatureTraining
from fewset.training.loop import fit
from fewset.training.optimiser import OptimiserConfig

_SHOTS = (1, 5)
CHOOSING_TASKS = 1000
_SEED = 0
TRAINING = TrainConfig(
    way=16,
    query=5,
    epochs=10,
    tasks_per_epoch=200,
    tasks_per_step=4,
    validation_query=10,
    optimiser=OptimiserConfig(lr=1e-4, schedule="cosine"),
)
"""Short: what learns are small networks, on rows that stay as they are. They learn at 10 times this rate."""

Echo = Callable[[str], None]


def measure_methods(
    rows: Sequence[MethodRow], embeddings: Embeddings, out: Path, tasks: int, echo: Echo
) -> MethodsRecord:
    """Score the numbers that are missing in the record in `out`, or were made from something else."""
    table, command = embeddings.table, command_line()
    record = MethodsRecord(table.name, table.digest, table.dim, table.manifest.get("made_from", {}), command)
    there, values = {}, {}
    if (out / FILE).exists():
        old = read_record_of(out)
        if old.data_digest == table.digest:
            there, values = {(each.row, each.shot): each for each in old.numbers}, read_per_task(out)
    per_task = {}
    places = [(row, shot) for row in rows for shot in _SHOTS]
    for count, (row, shot) in enumerate(places, start=1):
        key, source = key_of(row.name, shot), _source(row, shot, tasks)
        number = there.get((row.name, shot))
        complete = number is not None and (row.adapter == "identity" or number.set_adds is not None)
        if number is None or not complete or number.source != source or key not in values:
            echo(f"[{count}/{len(places)}] {key}")
            number, score = _measure(row, shot, embeddings, out, tasks, source)
            values[key] = score.per_task
        per_task[key] = values[key]
        record = replace(record, numbers=(*record.numbers, number))
        write_record(record, per_task, out)
    return record


def time_methods(
    rows: Sequence[MethodRow], embeddings: Embeddings, record: MethodsRecord, out: Path, echo: Echo
) -> MethodTimes:
    """How long each method of a record takes to draw and to score its tasks, after a few to warm up."""
    seconds: dict[str, dict[str, float]] = {}
    by_name = {row.name: row for row in rows}
    tasks = max(number.source["tasks"] for number in record.numbers)
    for number in record.numbers:
        echo(f"time of {key_of(number.row, number.shot)}")
        model = _ready(by_name[number.row], number.shot, number.chosen, embeddings, out)
        _score(model, embeddings, "test", number.shot, 64)
        began = time.perf_counter()
        _score(model, embeddings, "test", number.shot, tasks)
        seconds.setdefault(number.row, {})[str(number.shot)] = round(time.perf_counter() - began, 3)
    times = MethodTimes(tasks, seconds, dict(describe()), command_line())
    write_json(out / TIMES, asdict(times))
    return times


def _source(row: MethodRow, shot: int, tasks: int) -> dict[str, Any]:
    """The settings that a number depends on besides the embeddings, as JSON has them."""
    own = {key: value for key, value in asdict(row).items() if key != "sets_of_one" or value}
    source = {
        "method": own,
        "shot": shot,
        "tasks": tasks,
        "training": lasting(replace(TRAINING, shot=shot)) if row.trained else None,
        "chosen_on": CHOOSING_TASKS if row.choose else 0,
    }
    return dict(json.loads(json.dumps(source)))


def _measure(
    row: MethodRow, shot: int, embeddings: Embeddings, out: Path, tasks: int, source: dict[str, Any]
) -> tuple[MethodNumber, Score]:
    choices = row.choices()
    chosen = choices[0]
    if len(choices) > 1:
        scores = [
            _score(_ready(row, shot, each, embeddings, out), embeddings, "validation", shot, CHOOSING_TASKS)
            for each in choices
        ]
        chosen = choices[max(range(len(choices)), key=lambda place: scores[place].mean)]
    model = _ready(row, shot, chosen, embeddings, out)
    score, adds = _score(model, embeddings, "test", shot, tasks), None
    if model.capabilities.adapts:
        adds = set_adds(score, _score(model.alone(), embeddings, "test", shot, tasks))
    commit = str(describe()["commit"])
    about = (row.name, row.about.kind, shot, score.mean, score.ci95)
    return MethodNumber(*about, chosen, source, commit, adds), score


def _ready(row: MethodRow, shot: int, chosen: Options, embeddings: Embeddings, out: Path) -> FewShotModel:
    """The trained model of a row; a training that was finished before is read from its checkpoint."""
    model = _build(row, chosen, embeddings, training=row.trained)
    if row.trained:
        config = replace(TRAINING, shot=shot)
        made_of = [row.model(0, 1.0, chosen, training=True), lasting(config), embeddings.table.digest]
        digest = hashlib.sha256(repr(made_of).encode()).hexdigest()
        directory = inside(out, Path("trained") / digest[:16])  # rows that learn alike share it
        directory.mkdir(parents=True, exist_ok=True)
        fit(FeatureTraining(model, embeddings.table, config, _SEED), TrainingFiles(directory))
        if row.then:
            other = _build(row, chosen, embeddings, training=False)
            other.adapter.load_state_dict(model.adapter.state_dict())
            model = other
    return model


def _build(row: MethodRow, chosen: Options, embeddings: Embeddings, training: bool) -> FewShotModel:
    table = embeddings.table
    config = row.model(table.dim, embeddings.spread, chosen, training=training)
    model = cast(FewShotModel, build_model(config, _SEED)).to(embeddings.device)
    fit_centre(model, table)
    return model


def _score(model: FewShotModel, embeddings: Embeddings, setup: str, shot: int, tasks: int) -> Score:
    features, labels = embeddings.unseen(setup)
    spec = TaskSpec(way=5, shot=shot, query=15, tasks=tasks, seed=_SEED)
    return evaluate(model, model.feature_transform(features), labels, spec, title="scoring")
