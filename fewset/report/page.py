"""One self-contained HTML page from run directories, with the same figures and table as files."""

from base64 import b64encode
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, StrictUndefined

from fewset.io.files import write_bytes, write_text
from fewset.report.comparison import Comparison, compare_results
from fewset.report.figures import accuracy_figure, adaptation_figure, png, training_figure
from fewset.report.loading import LoadedResult, load_results
from fewset.report.tables import (
    comparison_table,
    csv_text,
    describe_tasks,
    latex_text,
    markdown_text,
    notes_table,
    score_tables,
    settings_table,
    text_of,
)
from fewset.tasks.scores import Difference

_PNG = "data:image/png;base64,"


class Adaptation(NamedTuple):
    """The effect of adaptation in a run: example tasks, and how many of all tasks it helps and hurts."""

    label: str
    figure: str
    picture: bytes
    shown: int
    shown_hurt: int
    tasks: int
    helped: int
    hurt: int


def build_report(runs: Sequence[Path], out: Path) -> Path:
    """Write `report.html`, its figures as PNG files and its tables as Markdown, CSV and LaTeX.

    The comparison is `table.md` and so on; `scores-1.md` is all scores of the first setting that has several.
    """
    results = load_results(runs)
    comparisons = compare_results(results)
    table = comparison_table(results)
    scores = score_tables(comparisons)
    adaptations = _adaptations(comparisons)
    figures = {"accuracy.png": png(accuracy_figure(comparisons))}
    training = training_figure(comparisons)
    if training is not None:
        figures["training.png"] = png(training)
    figures |= {item.figure: item.picture for item in adaptations}
    text = resources.files("fewset.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    html = template.from_string(text).render(
        title=_title(results),
        summary=summary(comparisons),
        table=table,
        scores=scores,
        notes=notes_table(comparisons),
        figures={name: _PNG + b64encode(picture).decode() for name, picture in figures.items()},
        adaptations=adaptations,
        comparisons=comparisons,
        settings=settings_table(comparisons),
        describe_tasks=describe_tasks,
        text_of=text_of,
    )
    for name, picture in figures.items():
        write_bytes(out / name, picture)
    tables = {"table": table} | {f"scores-{number}": each for number, each in enumerate(scores, start=1)}
    for name, each in tables.items():
        for form, render in (("md", markdown_text), ("csv", csv_text), ("tex", latex_text)):
            write_text(out / f"{name}.{form}", render(each))
    page = out / "report.html"
    write_text(page, html)
    return page


def summary(comparisons: Sequence[Comparison]) -> list[str]:
    """The results in sentences."""
    return [sentence for item in comparisons for sentence in _sentences(item)]


def _sentences(item: Comparison) -> list[str]:
    sentences = []
    name, tasks = item.label, f"{item.tasks:,} tasks"
    difference, gain, adds = item.difference, item.gain, item.set_adds
    if item.alone:
        sentences.append(f"{name} reaches {text_of(item.result.score)} % on {tasks}.")
    if difference is not None and difference.excludes_zero:
        side = "ahead of" if difference.mean > 0 else "behind"
        sentences.append(f"{name} is {side} {item.baseline} by {_size(difference)} on the same {tasks}.")
    elif difference is not None:
        sentences.append(
            f"Between {name} and {item.baseline} no difference can be shown on the same {tasks} "
            f"({text_of(difference)} points)."
        )
    if gain is not None and gain.excludes_zero:
        verb = "raises" if gain.mean > 0 else "lowers"
        sentences.append(f"The adapter {verb} the accuracy of {name} by {_size(gain)}.")
    elif gain is not None:
        sentences.append(
            f"The adapter makes no difference to {name} that can be shown ({text_of(gain)} points)."
        )
    if adds is not None and adds.excludes_zero:
        verb = "adds" if adds.mean > 0 else "costs"
        sentences.append(
            f"The set itself {verb} {_size(adds)}, compared with the same adapter on sets of one."
        )
        if item.over_foreign is not None:
            foreign = text_of(item.over_foreign)
            sentences.append(
                f"Compared with another task in place of the rest of the set, it is {foreign} points."
            )
    elif adds is not None:
        level = f"on sets of one it is level ({text_of(adds)} points)"
        sentences.append(f"That the set adds anything cannot be shown: {level}.")
    return sentences


def _size(difference: Difference) -> str:
    """The size of a difference without its sign."""
    return f"{100 * abs(difference.mean):.2f} ± {100 * difference.ci95:.2f} points"


def _title(results: Sequence[LoadedResult]) -> str:
    methods = list(dict.fromkeys(result.record.method for result in results))
    sets = list(dict.fromkeys(result.record.data for result in results))
    named = " and ".join(methods) if len(methods) < 3 else f"{len(methods)} methods"
    return f"{named} on {' and '.join(sets)}"


def _adaptations(comparisons: Sequence[Comparison]) -> list[Adaptation]:
    adaptations = []
    for number, item in enumerate(comparisons, start=1):
        examples, before = item.result.examples, item.result.unadapted
        if examples is not None and before is not None:
            effect = item.result.score.per_task - before.per_task
            adaptations.append(
                Adaptation(
                    item.label,
                    figure=f"adaptation-{number}.png",
                    picture=png(adaptation_figure(examples)),
                    shown=len(examples.task),
                    shown_hurt=int((examples.accuracy_after < examples.accuracy_before).sum()),
                    tasks=item.result.record.tasks,
                    helped=int((effect > 0).sum()),
                    hurt=int((effect < 0).sum()),
                )
            )
    return adaptations
