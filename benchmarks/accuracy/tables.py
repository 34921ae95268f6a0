"""The tables of methods: inductive and transductive apart, with paired differences to FEAT."""

from pathlib import Path

from benchmarks.accuracy.record import (
    MethodNumber,
    MethodsRecord,
    MethodTimes,
    key_of,
    read_per_task,
    read_record_of,
    read_times,
)
from fewset.experiments.result import half_width
from fewset.paper.render import write_rendered
from fewset.report.tables import Column, Estimate, Table, Value, csv_text, markdown_text
from fewset.tasks.scores import Difference, Score, compare

BASELINE = "FEAT"
KINDS = {
    "inductive": "Inductive: every query by itself",
    "transductive": "Transductive: the queries of a task together",
}


def methods_tables(out: Path) -> list[Table]:
    """One table a kind, in the order of the accuracy at the fewest shots; drawn from the files alone."""
    record, values, times = read_record_of(out), read_per_task(out), read_times(out)
    scores = {key: Score.of(each) for key, each in values.items()}
    shown = [kind for kind in KINDS if any(number.kind == kind for number in record.numbers)]
    return [_table(record, kind, scores, times, last=kind == shown[-1]) for kind in shown]


def render_methods(out: Path, pages: Path | None = None) -> list[Path]:
    """Write the tables (`.md`, `.csv`) beside their records; the page into `pages`, where that is given."""
    tables = methods_tables(out)
    texts = {
        "methods.md": "\n".join([f"# Methods on {read_record_of(out).data}\n", *map(markdown_text, tables)]),
        **{f"{kind}.csv": csv_text(table) for kind, table in zip(KINDS, tables, strict=False)},
    }
    return write_rendered(texts, out, pages)


def _table(
    record: MethodsRecord, kind: str, scores: dict[str, Score], times: MethodTimes | None, last: bool
) -> Table:
    numbers = {(number.row, number.shot): number for number in record.numbers}
    shots = sorted({number.shot for number in record.numbers})
    rows = list(dict.fromkeys(number.row for number in record.numbers if number.kind == kind))
    rows.sort(key=lambda row: -numbers[row, shots[0]].mean)
    columns: list[tuple[Column, list[Value]]] = [(Column("method", "method"), list(rows))]
    for shot in shots:
        title, baseline = f"{shot}-shot 5-way", scores.get(key_of(BASELINE, shot))
        accuracies: list[Value] = []
        differences: list[Value] = []
        for row in rows:
            score = scores.get(key_of(row, shot)) if (row, shot) in numbers else None
            accuracies.append(None if score is None else Estimate(score.mean, score.ci95))
            paired = score is not None and baseline is not None and row != BASELINE
            differences.append(compare(score, baseline) if paired else None)  # type: ignore[arg-type]
        columns.append((Column(title, title, True), accuracies))
        columns.append((Column(f"to {BASELINE}", f"{title} to {BASELINE}", True), differences))
        adds = [_set_adds(numbers.get((row, shot))) for row in rows]
        if any(adds):
            columns.append((Column("the set adds", f"{title}, the set adds", True), [*adds]))
        if times is not None:
            name = f"{shot}-shot, seconds"
            cells: list[Value] = [_seconds(times, row, shot) for row in rows]
            columns.append((Column(name, name), cells))
    options = {row: _chosen([numbers.get((row, shot)) for shot in shots]) for row in rows}
    chosen = "; ".join(f"{row} ({text})" for row, text in options.items() if text)
    note = (f"Chosen on tasks of the validation classes: {chosen}.",) if chosen else ()
    return Table(
        title=f"{KINDS[kind]} ({record.data}, {record.dim} dimensions): accuracy in %, mean ± 95 % interval",
        columns=tuple(column for column, _ in columns),
        rows=tuple(zip(*(cells for _, cells in columns), strict=True)),
        notes=(*note, *(_notes(record, times) if last else ())),
    )


def _set_adds(number: MethodNumber | None) -> Difference | None:
    if number is None or number.set_adds is None:
        return None
    return Difference(number.set_adds["mean"] or 0.0, half_width(number.set_adds["ci95"]))


def _seconds(times: MethodTimes, row: str, shot: int) -> str | None:
    seconds = times.seconds.get(row, {}).get(str(shot))
    return None if seconds is None else f"{seconds:.1f}"


def _chosen(numbers: list[MethodNumber | None]) -> str | None:
    """The options of a row at each number of shots; once where they are the same at all."""
    texts = {
        number.shot: ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in number.chosen.items())
        for number in numbers
        if number is not None and number.chosen
    }
    if len(set(texts.values())) < 2 <= len(texts):
        return next(iter(texts.values()))
    return ", ".join(f"at {shot} shot{'s' * (shot > 1)} {text}" for shot, text in texts.items()) or None


def _notes(record: MethodsRecord, times: MethodTimes | None) -> tuple[str, ...]:
    tasks = sorted({number.source["tasks"] for number in record.numbers})
    commits = " and ".join(sorted({number.commit[:10] for number in record.numbers}))
    count = f"{tasks[0]:,} to {tasks[-1]:,}" if len(tasks) > 1 else f"{tasks[0]:,}"
    notes = [
        f"{count} tasks of the test classes, with 15 queries a class, the same for all methods. Differences "
        "are paired, task by task.",
        "Methods that learn (FEAT, TPN, …) are trained for 2,000 tasks on the rows of the train classes; the "
        "embeddings stay as they are.",
        f"Made by {record.command}, commit {commits}, embeddings {record.data_digest[:16]}.",
    ]
    if times is not None:
        machine = times.machine
        notes.append(
            f"Seconds are for {times.tasks:,} tasks, drawn and scored, with {machine['threads']} threads of "
            f"{machine['processor']}; {times.command}."
        )
    return tuple(notes)
