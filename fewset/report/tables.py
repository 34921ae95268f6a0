"""Tables: one neutral structure, and a thin renderer for each form."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import NamedTuple

from fewset.io.files import harmless
from fewset.report.comparison import Comparison, compare_results, describe_fields
from fewset.report.loading import LoadedResult
from fewset.tasks.scores import Difference, Score


class Estimate(NamedTuple):
    """A mean and half its 95 % interval, as fractions, without the values that they were taken of."""

    mean: float
    ci95: float | None  # None where there is no interval
    decimals: int = 2
    mark: str = ""  # leads to a note


Value = Score | Difference | Estimate | str | None
"""A cell of a table."""


@dataclass(frozen=True)
class Column:
    """`title` is for people, `key` for programs; estimates (a number with an interval) align right."""

    title: str
    key: str
    estimate: bool = False


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    notes: tuple[str, ...] = ()


def comparison_table(results: Sequence[LoadedResult], baseline: int | None = None) -> Table:
    """Every method with its accuracy, what the adaptation brings, and the difference to the baseline."""
    comparisons = compare_results(results, baseline)
    alike = len({describe_tasks(result, count=False) for result in results}) == 1
    same_count = len({result.record.tasks for result in results}) == 1
    baselines = list(dict.fromkeys(item.baseline for item in comparisons if item.baseline))
    over = baselines[0] if len(baselines) == 1 else "baseline"

    def tasks(item: Comparison) -> Value:
        """The tasks of a row, where the title does not have them."""
        if not alike:
            return describe_tasks(item.result)
        return None if same_count else f"{item.result.record.tasks:,}"

    differences = [item.difference for item in comparisons]
    columns: dict[Column, list[Value]] = {
        Column("Method", "method"): [item.label for item in comparisons],
        Column("Tasks", "tasks"): [tasks(item) for item in comparisons],
        Column("Accuracy", "accuracy", True): [item.result.score for item in comparisons],
        Column("Unadapted", "unadapted", True): [item.result.unadapted for item in comparisons],
        Column("Gain", "gain", True): [item.gain for item in comparisons],
        Column("The set adds", "set_adds", True): [item.set_adds for item in comparisons],
        Column(f"Over {over}", "difference", True): [
            item.difference or (None if item.alone else "baseline") for item in comparisons
        ],
        Column("Excludes 0", "excludes_zero"): [
            each and ("yes" if each.excludes_zero else "no") for each in differences
        ],
        Column("Baseline", "baseline"): [
            item.baseline if len(baselines) > 1 else None for item in comparisons
        ],
    }
    shown = {column: cells for column, cells in columns.items() if any(cell is not None for cell in cells)}
    return Table(
        title="Accuracy in %, mean ± 95 % interval over tasks"
        + (f": {describe_tasks(results[0], count=same_count)}" if alike else ""),
        columns=tuple(shown),
        rows=tuple(zip(*shown.values(), strict=True)),
        notes=tuple(_alone(item, comparisons) for item in comparisons if item.alone and len(results) > 1),
    )


def score_tables(comparisons: Sequence[Comparison]) -> list[Table]:
    """All scores of the results that have several, such as seen and unseen: a table for each setting."""
    tables = []
    for setting in dict.fromkeys(item.result.record.setting for item in comparisons if item.result.scores):
        items = [item for item in comparisons if item.result.record.setting == setting and item.result.scores]
        names = dict.fromkeys(name for item in items for name in item.result.scores)
        rows = ((item.label, *(item.result.scores.get(name) for name in names)) for item in items)
        columns = (
            Column("Method", "method"),
            *(Column(name.replace("_", " "), name, True) for name in names),
        )
        title = f"All scores of the setting {setting} in %, mean ± 95 % interval over tasks"
        tables.append(Table(title, columns, tuple(rows)))
    return tables


def notes_table(comparisons: Sequence[Comparison]) -> Table | None:
    """The notes of the settings; None where there are none."""
    rows = []
    for item in comparisons:
        rows += [(item.label, name, text) for name, text in item.result.record.notes.items()]
        if item.result.record.left_out:
            names = ", ".join(item.result.record.left_out)
            rows.append((item.label, "left out, with too few items", names))
    columns = (Column("Result", "result"), Column("What", "what"), Column("", "text"))
    return Table("What else the settings say", columns, tuple(rows)) if rows else None


def settings_table(comparisons: Sequence[Comparison]) -> Table:
    """The training settings of the runs side by side, those first in which they differ."""
    trained = [item for item in comparisons if item.result.recipe]
    names = list(dict.fromkeys(name for item in trained for name in item.result.recipe))
    rows = [(name, *(_setting(item.result, name) for item in trained)) for name in names]
    rows.sort(key=lambda row: len(set(row[1:])) == 1)  # stable: the recipe's order within each part
    return Table(
        title="Training settings",
        columns=(Column("Setting", "setting"), *(Column(item.label, item.label) for item in trained)),
        rows=tuple(rows),
    )


def describe_tasks(result: LoadedResult, count: bool = True) -> str:
    """The tasks of a result in words, with or without their number."""
    record = result.record
    parts = [
        f"{record.data} {record.split}" + (f" ({record.domain})" if record.domain else ""),
        *([] if record.setting == "standard" else [record.setting]),
        f"{record.way}-way {record.shot}-shot",
        *([f"related classes ({record.related} nearest)"] if record.related else []),
        f"{record.query} queries a class",
        *([f"{record.tasks:,} tasks"] if count else []),
        f"seed {record.seed}",
    ]
    return ", ".join(parts)


def text_of(cell: Value) -> str:
    """A cell in words; fractions become percent with two decimals, differences carry their sign."""
    match cell:
        case None:
            return "–"
        case str():
            return cell
        case Difference():
            return f"{100 * cell.mean:+z.2f}{_interval(cell.ci95, 2)}"
        case Score():
            return f"{100 * cell.mean:.2f}{_interval(cell.ci95, 2)}"
        case Estimate():
            half = _interval(cell.ci95, cell.decimals)
            return f"{100 * cell.mean:.{cell.decimals}f}{half}{cell.mark}"


def _interval(ci95: float | None, decimals: int) -> str:
    return "" if ci95 is None or isnan(ci95) else f" ± {100 * ci95:.{decimals}f}"


def plain_text(table: Table) -> str:
    """Aligned columns for a terminal."""
    lines = [
        [column.title for column in table.columns],
        *([text_of(cell) for cell in row] for row in table.rows),
    ]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    lines.insert(1, ["─" * width for width in widths])
    aligned = [
        "  ".join(
            cell.rjust(width) if column.estimate else cell.ljust(width)
            for cell, width, column in zip(line, widths, table.columns, strict=True)
        ).rstrip()
        for line in lines
    ]
    return "\n".join([table.title, "", *aligned, *(["", *table.notes] if table.notes else [])]) + "\n"


def markdown_text(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    lines = [
        escape_markdown(table.title),
        "",
        line([escape_markdown(column.title) for column in table.columns]),
        line(["---:" if column.estimate else ":---" for column in table.columns]),
        *(line([escape_markdown(text_of(cell)) for cell in row]) for row in table.rows),
        *(f"\n{escape_markdown(note)}" for note in table.notes),
    ]
    return "\n".join(lines) + "\n"


def csv_text(table: Table) -> str:
    """For programs: an estimate becomes two columns, the number and half its interval, in percent."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        harmless(name)
        for column in table.columns
        for name in ((column.key, f"{column.key}_ci95") if column.estimate else (column.key,))
    )
    for row in table.rows:
        fields: list[str] = []
        for column, cell in zip(table.columns, row, strict=True):
            match cell:
                case Score() | Difference():
                    fields += [f"{100 * cell.mean:z.2f}", f"{100 * cell.ci95:.2f}"]
                case Estimate():
                    mean, _, half = text_of(cell._replace(mark="")).partition(" ± ")
                    fields += [mean, half]
                case _:
                    fields += ["", ""] if column.estimate else [harmless(cell or "")]
        writer.writerow(fields)
    return out.getvalue()


def latex_text(table: Table) -> str:
    """A table environment; needs the package booktabs."""

    def line(cells: Sequence[str]) -> str:
        return "    " + " & ".join(cells) + r" \\"

    def cell_of(cell: Value) -> str:
        if cell is None or isinstance(cell, str):
            return _latex(text_of(cell))
        mark = cell.mark if isinstance(cell, Estimate) else ""
        number = text_of(cell).removesuffix(mark).replace("±", r"\pm")
        return f"${number}${_latex(mark)}"

    alignment = "".join("r" if column.estimate else "l" for column in table.columns)
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_latex(table.title)}}}",
        rf"  \begin{{tabular}}{{{alignment}}}",
        r"    \toprule",
        line([_latex(column.title) for column in table.columns]),
        r"    \midrule",
        *(line([cell_of(cell) for cell in row]) for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(rf"  \par\smallskip\footnotesize {_latex(note)}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _alone(item: Comparison, comparisons: Sequence[Comparison]) -> str:
    others = [other for other in comparisons if other is not item]
    nearest = next((other for other in others if other.result.record.method == "ProtoNet"), others[0])
    differing = describe_fields(item.result, nearest.result)
    return f"{item.label} has no baseline: its tasks are not those of {nearest.label} ({differing})."


def _setting(result: LoadedResult, name: str) -> str:
    value = result.recipe.get(name, "–")
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "→": r"$\rightarrow$",
    "↓": r"$\downarrow$",
    "†": r"\textdagger{}",
    "‡": r"\textdaggerdbl{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
} | {character: f"\\{character}" for character in "&%$#_{}"}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
