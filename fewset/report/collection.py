"""A collection of kept results, and the page that is made from it.

A collection is a directory `GROUP/RUN/` of the small files of runs (no weights, no example tasks); a group is
an image set. The results of a run on other tasks than its recipe's are in `GROUP/RUN/results/`, as in the run
itself. The page and its pictures are in another directory, or in that of the collection. `GROUP/notes.md`
beside the page, if it exists, is the only part that is written by hand.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from fewset.core.errors import UserError
from fewset.core.names import plain_name
from fewset.experiments.result import TASK_FIELDS, write_result
from fewset.experiments.run_directory import RESULT, RESULTS
from fewset.io.files import replacing_directory, write_bytes, write_page
from fewset.io.paths import inside
from fewset.io.reading import read_bytes, read_text
from fewset.report.comparison import compare_results
from fewset.report.figures import png, training_figure
from fewset.report.loading import LoadedResult, load_result, load_results
from fewset.report.tables import (
    Column,
    Estimate,
    Table,
    Value,
    comparison_table,
    describe_tasks,
    escape_markdown,
    markdown_text,
    score_tables,
    text_of,
)
from fewset.tasks.scores import ALONE, compare

Annotate = Callable[[Table, Sequence[LoadedResult]], Table]
Pictures = dict[str, list[LoadedResult]]
"""The results whose curves a picture shows, by its place beside the page."""

_PAGE = "README.md"
_NOTES = "notes.md"
_LARGEST_FILE = 2**28
_KEPT = ("result.json", "recipe.toml", "metrics.jsonl", "*.npy", "results/*.json", "results/*.npy")

_SEED_KEYS = ("seed", "name", "train.init", "pretrain.init")  # in which seeds of one training differ

Family = list[LoadedResult]
"""Results on the same tasks that are alike but for the seed, by their seeds."""

_INTRODUCTION = """# Measured results

`fewset results` makes this page from {records}. Only the notes, "What differs, and why", are
written by hand.

Accuracies are means over tasks with their 95 % intervals. Differences are paired on the same tasks. Each
row is one training run with one seed. The interval says how well that run was measured, not how far another
seed would be from it; where a training was made with several seeds, a table of its own says that.
"""

_UNEQUAL = (
    "Training tasks: those of the runs that a row starts from come first. Rows that differ here were not "
    "trained equally, and their difference to ProtoNet contains that."
)


def keep(runs: Sequence[Path], directory: Path) -> list[Path]:
    """Copy the small files of finished runs into a collection; returns where they are."""
    _check_own_page(directory)
    places: dict[Path, Path] = {}
    for run in runs:
        record = load_result(run).record
        data, name = plain_name(record.data, f"{run}: the set"), plain_name(record.run, f"{run}: the run")
        place = inside(directory, data) / name
        if place in places:
            raise UserError(
                f"{places[place]} and {run} are both called {name}; train one of them with --set name=NAME"
            )
        more = sorted({*place.rglob("*")} - {*_small_files(place), place / RESULTS}) if place.exists() else []
        if more:
            raise UserError(
                f"{place} is not a kept run: it has {more[0].name} in it, and would be replaced as a whole; "
                "move it away, or choose another collection"
            )
        places[place] = run
    for place, run in places.items():
        with replacing_directory(place) as target:
            for file in _small_files(run):
                kept = target / file.relative_to(run)
                kept.parent.mkdir(exist_ok=True)
                if file.suffix == ".json":  # without the example tasks, which are larger than all the rest
                    write_result(replace(load_result(file).record, examples=None), kept)
                else:
                    kept.write_bytes(read_bytes(inside(run, file.relative_to(run)), _LARGEST_FILE))
    return list(places)


def _small_files(run: Path) -> list[Path]:
    return [file for pattern in _KEPT for file in run.glob(pattern)]


def _check_own_page(directory: Path) -> None:
    """Raise an error where another page would be replaced."""
    page = directory / _PAGE
    if page.exists() and not read_text(page).startswith(_INTRODUCTION.partition("\n")[0]):
        raise UserError(f"{page} is not a page of results, and would be replaced; choose another directory")


def make_page(
    directory: Path,
    pages: Path | None = None,
    check: bool = False,
    annotate: Annotate = lambda table, _: table,
) -> Path:
    """Write the page of a collection and its pictures; with `check` only compare them with the files.

    `annotate` may add columns and notes to each table of results.
    """
    command = f"fewset results {directory}" + ("" if pages is None else f" --pages {pages}")
    pages = directory if pages is None else pages
    _check_own_page(pages)
    pictures: Pictures = {}
    page = results_page(directory, pages, pictures, annotate)
    for place, rows in pictures.items():
        if check and not (pages / place).exists():
            raise UserError(f"{pages / place} is not there; make it again with `{command}`")
        figure = None if check else training_figure(compare_results(rows))
        if figure is not None:
            write_bytes(inside(pages, place), png(figure))
    return write_page(pages / _PAGE, page, command, check=check)


def results_page(directory: Path, pages: Path, pictures: Pictures, annotate: Annotate) -> str:
    """The page of a collection, as Markdown; adds to `pictures` those that it shows."""
    groups = sorted({file.parent.parent for file in directory.glob("*/*/result.json")})
    if not groups:
        raise UserError(f"there are no results in {directory}; add some with `fewset results --add RUN`")
    beside = "the files beside it"
    if directory.resolve() != pages.resolve():
        beside = f"the records in `{Path(os.path.relpath(directory, pages)).as_posix()}`"
    introduction = _INTRODUCTION.format(records=beside)
    return "\n".join(
        [introduction, *(_section(group, pages / group.name, pictures, annotate) for group in groups)]
    )


def _section(group: Path, pages: Path, pictures: Pictures, annotate: Annotate) -> str:
    """The results of an image set: those on the same tasks side by side, then how each was made."""
    results = load_results(sorted([*group.glob("*/result.json"), *group.glob("*/results/*.json")]))
    results.sort(key=_order)
    parts = [f"## {group.name}\n"]
    shown: list[LoadedResult] = []
    protocols = [list(same) for _, same in groupby(results, key=_protocol)]
    headings = [_heading(protocol[0]) for protocol in protocols]
    for protocol, heading in zip(protocols, headings, strict=True):
        protocol.sort(key=lambda result: result.score.mean)
        if len(protocols) > 1:
            unique = headings.count(heading) == 1
            long = describe_tasks(protocol[0], count=False)
            parts.append(f"### {escape_markdown(heading if unique else long)}\n")
        seeds = families(protocol)
        firsts = [family[0] for family in seeds]
        rows = [_with_its_graph(result) for result in protocol if result in firsts]
        # Of several the best ProtoNet, which is the last one here.
        baselines = [place for place, result in enumerate(rows) if result.record.method == "ProtoNet"]
        table = comparison_table(rows, baselines[-1] if baselines else None)
        table = _with_training(annotate(table, rows), rows, {each.record.run: each for each in results})
        tables = [table, spread_table(seeds), *score_tables(compare_results(rows))]
        parts += [markdown_text(table) for table in tables if table is not None]
        # Models that learned from tasks, on the tasks that their recipes score them on.
        own = [result for result in rows if result.path == result.directory / RESULT]
        learned = [
            result for result in own if result.curves is not None and result.recipe.get("train.epochs")
        ]
        if learned:
            place = f"{group.name}/curves-{learned[0].record.way}way-{learned[0].record.shot}shot.png"
            pictures[place] = learned
            parts.append(f"![Meta-training, epoch by epoch]({place})\n")
        shown += protocol
    parts += ["### How each number was made\n", markdown_text(_origins(shown))]
    if (pages / _NOTES).exists():
        notes = read_text(pages / _NOTES).strip()
        parts += ["### What differs, and why\n", f"{notes}\n"]
    return "\n".join(parts)


def _heading(result: LoadedResult) -> str:
    """The tasks of a table in a few words; the table has them in full."""
    record = result.record
    setting = "" if record.setting == "standard" else record.setting.capitalize()
    place = (record.domain or "").replace("→", " → ")
    related = "related classes" if record.related else ""
    return ", ".join(filter(None, (setting, place, f"{record.way}-way {record.shot}-shot", related)))


def _with_its_graph(result: LoadedResult) -> LoadedResult:
    """A GCN is called after its graph: the paper's has one of the labels."""
    if result.recipe.get("model.adapter_options.graph") != "similarity":
        return result
    return replace(result, record=replace(result.record, method=f"{result.record.method}, similarity graph"))


def _with_training(table: Table, results: Sequence[LoadedResult], runs: Mapping[str, LoadedResult]) -> Table:
    """The table with the tasks that each row was trained on, and a note where they differ."""
    trained = [_training_tasks(result, runs) for result in results]
    if not any(trained):
        return table
    cells = [" + ".join(f"{tasks:,}" for tasks in each) or None for each in trained]
    return replace(
        table,
        columns=(table.columns[0], Column("Training tasks", "training_tasks", True), *table.columns[1:]),
        rows=tuple((row[0], cell, *row[1:]) for row, cell in zip(table.rows, cells, strict=True)),
        notes=(*table.notes, *([_UNEQUAL] if len({*cells} - {None}) > 1 else [])),
    )


def _training_tasks(result: LoadedResult, runs: Mapping[str, LoadedResult]) -> list[int]:
    """How many tasks each training had that led to these weights, the first one first."""
    before = runs.get(result.recipe.get("train.init", ""))
    earlier = [] if before is None or before.recipe == result.recipe else _training_tasks(before, runs)
    own = result.recipe.get("train.epochs", 0) * result.recipe.get("train.tasks_per_epoch", 0)
    return [*earlier, own] if own else earlier


def _order(result: LoadedResult) -> tuple[Any, ...]:
    """The standard setting first, smaller tasks before larger ones; results on the same tasks together."""
    record = result.record
    standard = record.setting == "standard"
    return not standard, record.setting, record.domain or "", record.way, record.shot, str(_protocol(result))


def _protocol(result: LoadedResult) -> tuple[Any, ...]:
    """The fields that are equal for all results of one table."""
    return tuple(getattr(result.record, name) for name in TASK_FIELDS)


def _machine(result: LoadedResult) -> str:
    record = result.record
    processor, threads = (record.versions.get(name, "") for name in ("processor", "threads"))
    processes = int(record.versions.get("processes", 1))
    return f"{processor}, " + (f"{processes} processes of " if processes > 1 else "") + f"{threads} threads"


def _origins(results: Sequence[LoadedResult]) -> Table:
    """How each number was made."""
    titles = ("Run", "Starts from", "Command", "Seed", "Training", "Commit", "torch", "Machine")
    rows = [
        (
            result.record.run,
            result.recipe.get("train.init") or result.recipe.get("pretrain.init") or "–",
            result.record.command,
            str(result.recipe.get("seed", "")),
            "–" if result.curves is None else f"{result.curves.seconds[-1] / 60:.1f} min",
            result.record.commit[:10] + ("+changes" if result.record.commit.endswith("+changes") else ""),
            str(result.record.versions.get("torch", "")),
            _machine(result),
        )
        for result in results
    ]
    title = "The time of a training does not include that of the run it starts from."
    return Table(title, tuple(Column(title, title) for title in titles), tuple(rows))


def families(results: Sequence[LoadedResult]) -> list[Family]:
    """The results on the same tasks, each with those of the same training with other seeds."""
    found: list[Family] = []
    for result in sorted(results, key=_seed):
        known = [family for family in found if _differs_in_seed(family, result)]
        if known:
            known[0].append(result)
        else:
            found.append([result])
    return found


def _seed(result: LoadedResult) -> int:
    return int(result.recipe.get("seed", 0))


def _differs_in_seed(family: Family, result: LoadedResult) -> bool:
    first = family[0]
    shared = (first.recipe.keys() & result.recipe.keys()) - set(_SEED_KEYS)  # versions may have others
    return (
        bool(shared)
        and first.record.method == result.record.method
        and _seed(result) not in map(_seed, family)
        and all(first.recipe[key] == result.recipe[key] for key in shared)
    )


def spread_table(found: Sequence[Family]) -> Table | None:
    """The spread of the training seeds; None where each training has one."""
    several = [family for family in found if len(family) > 1]
    if not several:
        return None
    baseline = next((family for family in several if family[0].record.method == "ProtoNet"), [])
    by_seed = {_seed(result): result for result in baseline}

    def over(family: Family) -> Value:
        """Seed by seed, over the baseline of the same seed."""
        pairs = [(each, by_seed[_seed(each)]) for each in family if _seed(each) in by_seed]
        texts = (text_of(compare(each.score, other.score)) for each, other in pairs)
        return None if family is baseline else ", ".join(texts) or None

    def adds(family: Family) -> Value:
        """What the set adds, seed by seed; the seeds are named where some were not measured."""
        known = [each for each in family if ALONE in each.scores]
        names = [f"seed {_seed(each)}: " if len(known) < len(family) else "" for each in known]
        texts = [text_of(compare(each.score, each.scores[ALONE])) for each in known]
        return ", ".join(map("".join, zip(names, texts, strict=True))) or None

    titles = ("Mean of the seeds", "Lowest", "Highest")
    columns = [Column("Method", "method"), Column("Seeds", "seeds")]
    columns += [Column(title, title.lower(), True) for title in titles]
    rows: list[tuple[Value, ...]] = []
    for family in several:
        means = [result.score.mean for result in family]
        spread = [Estimate(number, None) for number in (fmean(means), min(means), max(means))]
        seeds = ", ".join(str(_seed(each)) for each in family)
        rows.append((family[0].record.method, seeds, *spread, *([over(family)] if baseline else [])))
    if baseline:
        columns.append(Column("Over ProtoNet, seed by seed", "over"))
    what = [adds(family) for family in several]
    if any(what):
        columns.append(Column("The set adds, seed by seed", "set_adds"))
        rows = [(*row, cell) for row, cell in zip(rows, what, strict=True)]
    return Table("The same trainings with several seeds", tuple(columns), tuple(rows))
