"""The page of `fewset measure`: made from its plan and its files alone."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fewset.classify.measure.measurement import Figure, Measurement, PlannedSet, read_measurement, read_plan
from fewset.core.errors import UserError
from fewset.io.files import page_beside, write_text
from fewset.report.tables import Column, Estimate, Table, Value, escape_markdown, markdown_text
from fewset.tasks.scores import Difference

_INTRODUCTION = """# How good the classifier is

`fewset measure` makes this page; its files are in `docs/classifier`, and no number is written by hand:

```
fewset measure docs/classifier/plan.toml --data FOLDER
```

The folder holds the sets that `plan.toml` names. For your own photos write such a plan: a name, a title, the
kind of the source (`folder` is a folder a class) and the source of each set.

Each set is embedded once, by the encoder that is named at the end. A task has a few labelled images of some
of the classes, and queries of the same classes. Accuracy is the share of queries that are classified rightly,
in percent: the mean over tasks with its 95 % interval. The classes of a task are drawn independently or are
related: a class and four of its eight nearest. Which are near never comes from the encoder that is measured.
"""
_FIGURES = {
    "calibration_error": "expected calibration error",
    "overconfidence": "mean probability less accuracy",
    "covered": "tasks whose accuracy is in the interval of leave-one-out",
    "left_out_bias": "leave-one-out less accuracy",
    "left_out_error": "the same, without sign",
    "auroc": "AUROC of “none of these”",
    "turned_away": "own photos turned away",
    "strangers_found": "photos of other classes turned away",
}
_AT_MOST = ("calibration_error",)
_MOST_BEHIND = 0.003


def write_measured_page(plan: Path, directory: Path) -> Path:
    """Write the page beside the directory of the files."""
    page = page_beside(directory)
    write_text(page, measured_page(plan, directory))
    return page


def measured_page(plan: Path, directory: Path) -> str:
    """The page of those sets of a plan that are measured, as Markdown."""
    planned = read_plan(plan)
    files = [(each, directory / f"{each.name}.json") for each in planned.sets]
    measured = [_as_planned(each, file) for each, file in files if file.exists()]
    if not measured:
        raise UserError(f"nothing of {plan} is measured in {directory}; make it with `fewset measure {plan}`")
    notes = "".join(f"- {note}\n" for note in planned.notes)
    parts = [_INTRODUCTION, notes]
    for each in measured:
        parts += [f"## {escape_markdown(each.planned.title)}\n", *map(markdown_text, _set_tables(each))]
    parts += ["## The default against the fixed heads\n", _default_in_words(measured)]
    parts += ["## How far to trust it\n", markdown_text(_trust_table(measured))]
    parts += ["## Bars\n", markdown_text(_bar_table(measured))]
    parts += ["## How each number was made\n", markdown_text(_origin_table(measured))]
    return "\n".join(part for part in parts if part)


def _as_planned(planned: PlannedSet, file: Path) -> Measurement:
    """What was measured, with the titles, notes and bars that the plan has now; the set must be the same."""
    measured = read_measurement(file)
    if measured.planned.images != planned.images:
        raise UserError(
            f"{file} was measured on {measured.planned.images}, the plan has {planned.images}; "
            "measure it anew"
        )
    heads = {measured.default, *(name for cell in measured.cells for name in cell.accuracy)}
    complete = measured.cells and all(
        heads == cell.accuracy.keys() and heads <= {*cell.ahead, cell.reference} for cell in measured.cells
    )
    if not complete or not _FIGURES.keys() <= measured.trust.figures.keys():
        raise UserError(f"{file} lacks some of the figures of a measurement; measure it anew")
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
            "Probabilities of all tasks together are put into 15 bins of equal width. The accuracy that the "
            "interval has to hold, and that leave-one-out is compared with, is that on the queries; the "
            "interval allows for the photos that leave-one-out has not to learn from. Photos of other "
            "classes are of as many classes as the task has; the threshold is meant to turn 5 % of the own "
            "photos away.",
        ),
    )


def _bar_table(measured: Sequence[Measurement]) -> Table:
    rows = [row for each in measured for row in _bar_rows(each)]
    columns = ("Set", "Figure", "Bar", "Measured", "Reached")
    return Table("What was asked for", tuple(Column(name, name.lower()) for name in columns), tuple(rows))


def _bar_rows(measured: Measurement) -> Iterator[tuple[str, ...]]:
    figures = {cell.name: cell.accuracy[measured.default] for cell in measured.cells}
    figures |= measured.trust.figures
    for name, bar in measured.planned.bars.items():
        if name not in figures:
            raise UserError(f"the plan has a bar for {name!r}, which is not one of {', '.join(figures)}")
        value = 100 * figures[name].mean
        most = name in _AT_MOST
        reached = value <= bar if most else value >= bar
        yield (
            measured.planned.title,
            _FIGURES.get(name, name),
            f"{'at most' if most else 'at least'} {bar:g}",
            f"{value:.2f}",
            "yes" if reached else "no",
        )


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
