"""The page on the accuracy of the classifier, made from a plan and its records alone."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.classifier.measurement import Figure, Measurement, PlannedSet, read_measurement, read_plan
from fewset.core.errors import UserError
from fewset.report.tables import Column, Estimate, Table, Value, escape_markdown, markdown_text
from fewset.tasks.scores import Difference

_INTRODUCTION = """# How good the classifier is

This page is made from records by `python -m benchmarks classifier` (in a checkout of the repository):

```
python -m benchmarks classifier results/classifier/plan.toml --data FOLDER --page docs/classifier.md
```

The folder holds the sets that the plan names. To measure on your own photos, write such a plan: a name, a
title, the kind of the source (`folder` is a folder a class) and the source of each set.

Each set is embedded once, by the encoder that is named at the end. A task has a few labelled images of some
of the classes, and queries of the same classes. Accuracy is the share of correctly classified queries in
percent: the mean over tasks with its 95 % interval. The classes of a task are drawn independently or are
related: a class and four of its eight nearest. Another encoder than the measured one decides which are near.
"""
_FIGURES = {
    "calibration_error": "expected calibration error",
    "overconfidence": "mean probability less accuracy",
    "covered": "tasks whose accuracy lies in the interval of leave-one-out",
    "left_out_bias": "leave-one-out less accuracy",
    "left_out_error": "the same, without sign",
}
_REJECTION = {
    "rejected at 0.05": "Own photos rejected where 5 % may be",
    "rejected at 0.1": "Own photos rejected where 10 % may be",
    "unknown found at 0.05": "Photos of other classes rejected, at 5 %",
    "auroc": "AUROC",
    "auroc of the cosine": "AUROC of the largest cosine alone",
}
_REJECTION_SETS = {
    "mini-test": "miniImageNet, test classes",
    "cub-test": "CUB, test classes",
    "sketchy-Photo": "Sketchy, photos of 65 classes",
    "sketchy-Sketch": "Sketchy, sketches of 65 classes",
}
_ON_REJECTION = """## None of these

Each task also has photos of other classes, as many as its own if there are enough. With `--reject`, photos of
other classes should be rejected, and of its own classes the share that was asked for. Figures are in percent.
"""
_MOST_BEHIND = 0.003


def measured_page(plan: Path) -> str:
    """The page of those sets of a plan that are measured, as Markdown; the records are beside the plan."""
    planned = read_plan(plan)
    files = [(each, plan.with_name(f"{each.name}.json")) for each in planned.sets]
    measured = [_as_planned(each, file) for each, file in files if file.exists()]
    if not measured:
        raise UserError(f"no set of {plan} is measured yet; run `python -m benchmarks classifier {plan}`")
    notes = "".join(f"- {note}\n" for note in planned.notes)
    notes = f"## Protocol\n\n{notes}" if notes else ""
    parts = [_INTRODUCTION]
    for each in measured:
        parts += [f"## {escape_markdown(each.planned.title)}\n", *map(markdown_text, _set_tables(each))]
    parts += ["## The default against the fixed heads\n", _default_in_words(measured)]
    parts += ["## How far to trust it\n", markdown_text(_trust_table(measured))]
    parts += _rejection_parts(plan.with_name("rejection.json"))
    parts += [notes] if notes else []
    parts += ["## How each number was made\n", markdown_text(_origin_table(measured))]
    return "\n".join(part for part in parts if part)


def _as_planned(planned: PlannedSet, file: Path) -> Measurement:
    """What was measured, with the titles and notes that the plan has now; the set must be the same."""
    measured = read_measurement(file)
    if measured.planned.images != planned.images:
        raise UserError(
            f"{file} was measured on {measured.planned.images}, the plan has {planned.images}; "
            "measure it again"
        )
    heads = {measured.default, *(name for cell in measured.cells for name in cell.accuracy)}
    complete = measured.cells and all(
        heads == cell.accuracy.keys() and heads <= {*cell.ahead, cell.reference} for cell in measured.cells
    )
    if not complete or not _FIGURES.keys() <= measured.trust.figures.keys():
        raise UserError(f"{file} lacks some of the figures of a measurement; measure it again")
    return replace(measured, planned=planned)


def _set_tables(measured: Measurement) -> Iterator[Table]:
    cells = measured.cells
    heads = list(dict.fromkeys(name for cell in cells for name in cell.accuracy))
    corner = Column("Head", "head")
    columns = (corner, *(Column(cell.name, cell.name, True) for cell in cells))
    names = [f"{name} (default)" if name == measured.default else name for name in heads]
    sizes = ", ".join(f"{cell.tasks:,} of {cell.query} at {cell.name}" for cell in cells)
    yield Table(
        f"{measured.images:,} images of {measured.classes} classes: accuracy",
        columns,
        tuple(
            (shown, *(_estimate(cell.accuracy[head]) for cell in cells))
            for shown, head in zip(names, heads, strict=True)
        ),
    )
    yield Table(
        "Ahead of the better of ridge and logistic regression, on the same tasks",
        columns,
        tuple(
            (
                shown,
                *(None if head == cell.reference else _difference(cell.ahead[head]) for cell in cells),
            )
            for shown, head in zip(names, heads, strict=True)
        ),
        (f"Tasks, and queries a class: {sizes}.", *measured.planned.notes),
    )


def _default_in_words(measured: Sequence[Measurement]) -> str:
    """How the default stands against the better of the references, over all cells."""
    ahead = [
        (cell.ahead[each.default].mean, f"{each.planned.title}, {cell.name}")
        for each in measured
        for cell in each.cells
    ]
    worst, place = min(ahead)
    behind = sum(mean < -_MOST_BEHIND for mean, _ in ahead)
    return (
        f"Over the {len(ahead)} cells above the default ({measured[0].default}) is "
        f"{100 * sum(mean for mean, _ in ahead) / len(ahead):+.2f} points ahead of the better of ridge and "
        f"logistic regression, taken cell by cell. At worst it is {100 * worst:+.2f} ({place}); it is more "
        f"than {100 * _MOST_BEHIND:.1f} behind in {behind}.\n"
    )


def _trust_table(measured: Sequence[Measurement]) -> Table:
    trusts = [each.trust for each in measured]
    first = trusts[0]
    return Table(
        f"The classifier with the head {first.head} at {first.way}-way {first.shot}-shot, in percent",
        (
            Column("Figure", "figure"),
            *(Column(each.planned.title, each.planned.name, True) for each in measured),
        ),
        (
            ("tasks", *(f"{trust.tasks:,}" for trust in trusts)),
            ("queries a class", *(str(trust.query) for trust in trusts)),
            *(
                (words, *(_estimate(trust.figures[name]) for trust in trusts))
                for name, words in _FIGURES.items()
            ),
        ),
        (
            "The calibration error puts the probabilities of all tasks into 15 bins of equal width. "
            "Leave-one-out and its interval are compared with the accuracy on the queries; the interval "
            "corrects for the smaller training sets of leave-one-out.",
        ),
    )


def _rejection_parts(file: Path) -> list[str]:
    """The section about "none of these", if that is measured."""
    if not file.exists():
        return []
    sets: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["sets"]
    sizes = dict.fromkeys(size for each in sets.values() for size in each["cells"])

    def value(name: str, size: str, figure: str) -> Value:
        found = sets[name]["cells"].get(size, {}).get(figure)
        return found and Estimate(*found)

    tables = [
        Table(
            title,
            (Column("Task", "task"), *(Column(_REJECTION_SETS[name], name, True) for name in sets)),
            tuple((size, *(value(name, size, figure) for name in sets)) for size in sizes),
        )
        for figure, title in _REJECTION.items()
    ]
    away = [
        round(abs(cell[f"rejected at {share}"][0] - share), 4)
        for each in sets.values()
        for cell in each["cells"].values()
        for share in (0.05, 0.1)
        if f"rejected at {share}" in cell
    ]
    held = (
        f"The share of own photos is within 2 points of 5 or 10 % in {sum(each <= 0.02 for each in away)} "
        f"of {len(away)} cells.\n"
    )
    origins = [
        f"- {_REJECTION_SETS[name]}: commit {sets[name]['commit'][:10]}, `{sets[name]['command']}`"
        for name in sets
    ]
    return [_ON_REJECTION, held, *map(markdown_text, tables), "\n".join(origins) + "\n"]


def _origin_table(measured: Sequence[Measurement]) -> Table:
    names = ("Set", "Images", "Encoder", "Seed", "Commit", "Minutes", "Command")
    return Table(
        "Digests are sha256, the first 12 digits",
        tuple(Column(name, name.lower()) for name in names),
        tuple(
            (
                each.planned.title,
                each.images_digest[:12],
                f"{each.encoder} ({each.encoder_digest[:12]})",
                str(each.seed),
                each.commit[:10] + ("+changes" if each.commit.endswith("+changes") else ""),
                f"{each.seconds / 60:.0f}",
                each.command,
            )
            for each in measured
        ),
    )


def _estimate(figure: Figure) -> Value:
    return Estimate(figure.mean, figure.ci95)


def _difference(figure: Figure) -> Value:
    return Difference(figure.mean, float("nan") if figure.ci95 is None else figure.ci95)
