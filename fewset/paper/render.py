"""Studies as tables and figures in the paper's form, with the paper's own numbers beside ours."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fewset.io.files import write_bytes
from fewset.paper.numbers import cited_note
from fewset.paper.study import Study
from fewset.paper.study_figures import study_figures
from fewset.report.figures import png, svg
from fewset.report.tables import Column, Table, Value, csv_text, escape_markdown, latex_text, markdown_text
from fewset.tasks.scores import SET_ADDS

_MOST_COLUMNS = 9  # of numbers in a table that fits a page
_Filled = tuple[Column, Sequence[Value]]
"""A column and its cells."""


def render_study(study: Study, out: Path, pages: Path | None = None) -> list[Path]:
    """Write the tables (`.md`, `.csv`, `.tex`) and figures (`.png`, `.svg`) of a study to `out`.

    What a page shows (`.md`, `.png`) is written to `pages`, if given.
    """
    tables, figures = study_tables(study), study_figures(study)
    title = escape_markdown(study.title)
    pictures = (f"![{title}]({name}.png)\n" for name in figures)
    texts = {
        f"{study.name}.md": "\n".join([f"# {title}\n", *map(markdown_text, tables), *pictures]),
        f"{study.name}.csv": csv_text(_long_table(study)),
        f"{study.name}.tex": "\n".join(map(latex_text, tables)),
    }
    images = {
        f"{name}.{form}": render(figure)
        for name, figure in figures.items()
        for form, render in (("png", png), ("svg", svg))
    }
    return write_rendered({**texts, **images}, out, pages)


def write_rendered(contents: Mapping[str, str | bytes], records: Path, pages: Path | None) -> list[Path]:
    """Write what a page shows (Markdown and PNG) into `pages`, if given, and all else beside the records."""
    written = []
    for name, content in contents.items():
        path = (pages if pages is not None and name.endswith((".md", ".png")) else records) / name
        write_bytes(path, content.encode() if isinstance(content, str) else content)
        written.append(path)
    return written


def study_tables(study: Study) -> list[Table]:
    """One table a panel, the last with the notes.

    What the set adds and the paper's number follow each of ours; where there are many columns, what the set
    adds has tables of its own.
    """
    tables = []
    for panel in study.panels:
        ours = [
            (Column(column, column, True), [study.ours(panel, row, column) for row in study.rows])
            for column in study.columns
        ]
        adds = _columns(study, panel, study.set_adds, "{}, the set adds".format)
        paper = _columns(study, panel, study.paper, lambda column: f"{study.key(column)}, paper")
        beside = sum(each is not None for each in (*ours, *adds, *paper)) <= _MOST_COLUMNS
        triples = zip(ours, adds if beside else [None] * len(ours), paper, strict=True)
        on = f"{study.on}; paper: {study.source.on}" if study.source else study.on
        measured = [each for triple in triples for each in triple if each is not None]
        tables.append(_table(study, panel, f"({on}): accuracy in %, mean ± 95 % interval", measured))
        own = [] if beside else [each for each in adds if each is not None]
        if own:
            table = _table(study, panel, f"({study.on}): what the set adds, in points", own)
            adapted = tuple(row for row in table.rows if any(cell is not None for cell in row[1:]))
            tables.append(replace(table, rows=adapted))
    notes = (*study.notes, *_about_the_set(study), _about_ours(study), *_about_the_paper(study))
    return [*tables[:-1], replace(tables[-1], notes=notes)]


def _columns(
    study: Study, panel: str, number: Callable[[str, str, str], Value], title: Callable[[str], str]
) -> list[_Filled | None]:
    """A column of numbers beside each of ours; None where it would be empty."""
    filled: list[_Filled | None] = []
    for column in study.columns:
        cells = [number(panel, row, column) for row in study.rows]
        empty = all(cell is None for cell in cells)
        filled.append(None if empty else (Column(title(column), title(column), True), cells))
    return filled


def _table(study: Study, panel: str, about: str, filled: Sequence[_Filled]) -> Table:
    """Filled columns behind the names of the rows."""
    corner = f"{study.corner} ↓ {study.columns_title} →" if study.columns_title else study.corner
    return Table(
        title=f"{', '.join(filter(None, (study.title, panel)))} {about}",
        columns=(Column(corner, "row"), *(column for column, _ in filled)),
        rows=tuple(zip(study.rows, *(cells for _, cells in filled), strict=True)),
    )


def _about_the_set(study: Study) -> list[str]:
    """What the set adds means, where it is shown."""
    shown = any(number.score == SET_ADDS or study.set_adds(*number.place) for number in study.numbers)
    said = (
        "The set adds: the accuracy less that of the same weights with each class as a set of one, paired by "
        "task. A function that was trained on larger sets may do badly on sets of one for that alone."
    )
    return [said] if shown else []


def _about_ours(study: Study) -> str:
    """How many tasks our numbers are over, and how they were made."""
    parts = [f"Ours: {study.on}", f"made by {study.command}"]
    if study.numbers:
        tasks = sorted({number.result.tasks for number in study.numbers})
        commits = sorted({number.result.commit[:10] for number in study.numbers})
        few = f"{tasks[0]:,} to " if len(tasks) > 1 else ""
        parts[1:1] = [f"{few}{tasks[-1]:,} tasks each"]
        parts.append(f"commit {' and '.join(commits)}")
    missing = study.missing
    said = f" Not measured: {missing} of {missing + len(study.numbers)}." if missing > 0 else ""
    return ", ".join(parts) + "." + said


def _about_the_paper(study: Study) -> list[str]:
    if study.source is None:
        return ["The paper prints no numbers for this."]
    notes = [f"Paper: {study.source.where}, on {study.source.on}."]
    if not study.on_the_papers_set:
        notes[0] += " Ours are not on that: compare how the rows differ, not their levels."
    numbers = [(place[1], study.paper(*place)) for place in study.places()]
    cited = dict.fromkeys(row for row, number in numbers if number and number.mark)
    return [*notes, cited_note(row for row in study.rows if row in cited)] if cited else notes


def _long_table(study: Study) -> Table:
    """For programs: one line for each number, with what it was made of."""
    origins = ("run", "tasks", "seed", "commit", "command")
    columns = (
        *(Column(name, name) for name in ("data", "backbone", "panel", "row", "column")),
        *(Column(name, name, True) for name in ("accuracy", "set_adds", "paper")),
        *(Column(name, name) for name in ("paper_on", "paper_cited", *origins)),
    )
    rows: list[tuple[Value, ...]] = []
    for place in study.places():
        number, paper = study.number(*place), study.paper(*place)
        origin = ("" if number is None else str(getattr(number.result, name)) for name in origins)
        about = (study.source.on, "yes" if paper.mark else "no") if paper and study.source else (None, None)
        numbers = study.ours(*place), study.set_adds(*place), paper
        rows.append((study.data, study.backbone, *place, *numbers, *about, *origin))
    return Table(study.title, columns, tuple(rows))
