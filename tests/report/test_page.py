import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.report.comparison import Comparison, compare_results
from fewset.report.loading import load_results
from fewset.report.page import build_report, summary
from fewset.report.tables import comparison_table, csv_text, latex_text, markdown_text
from fewset.tasks.scores import Difference
from tests.helpers.results import MakeRun, naive_score, per_task, write_result, write_run


class Page(HTMLParser):
    """The tags, references and text of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.references: list[str] = []
        self.parts: list[str] = []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [
            value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")
        ]

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.parts).split())


class Built(NamedTuple):
    runs: list[Path]
    out: Path
    page: Page


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A report that is only looked at, built once."""
    folder = tmp_path_factory.mktemp("built")
    runs = [
        write_run(folder / "runs", "proto"),
        write_run(folder / "runs", "feat", per_task(1), per_task(2), method="FEAT"),
    ]
    out = folder / "deep" / "report"
    page = build_report(runs, out)
    assert page == out / "report.html"
    return Built(runs, out, Page(page))


def summary_of(runs: list[Path]) -> list[str]:
    return summary(compare_results(load_results(runs)))


def test_the_page_and_all_its_files_are_written(built: Built) -> None:
    pictures = {"accuracy.png", "training.png", "adaptation-2.png"}
    names = {path.name for path in built.out.iterdir()}
    assert names == {"report.html", "table.md", "table.csv", "table.tex"} | pictures
    table = comparison_table(load_results(built.runs))
    assert (built.out / "table.md").read_text() == markdown_text(table)
    assert (built.out / "table.csv").read_text() == csv_text(table)
    assert (built.out / "table.tex").read_text() == latex_text(table)


def test_the_page_holds_its_pictures_and_refers_to_nothing_else(built: Built) -> None:
    page = built.page
    pictures = [base64.b64decode(uri.removeprefix("data:image/png;base64,")) for uri in page.references]
    names = ("accuracy.png", "training.png", "adaptation-2.png")
    assert pictures == [(built.out / name).read_bytes() for name in names]
    assert not {"script", "link", "iframe", "object", "base"} & set(page.tags)
    assert "://" not in page.source
    assert not re.search(r"url\(|@import", page.source)


def test_the_page_says_how_each_number_was_made(built: Built) -> None:
    text = built.page.text
    for run in built.runs:
        record = json.loads((run / "result.json").read_text())
        for name in ("command", "run", "commit", "data_digest", "setting"):
            assert record[name] in text
        assert f"{100 * record['mean']:.2f} ± {100 * record['ci95']:.2f}" in text
    assert "5-way 1-shot, 13 queries a class, 41 tasks, seed 0" in text
    assert "torch 2.13.0" in text
    assert "train.optimiser.lr 0.01 0.01" in text


def test_the_effect_of_adaptation_is_counted_over_all_tasks(built: Built) -> None:
    text = built.page.text
    pairs = list(zip(per_task(1), per_task(2), strict=True))
    helped, hurt = sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)
    same = 41 - helped - hurt
    assert f"Over all 41 tasks it helps in {helped}, hurts in {hurt} and changes nothing in {same}." in text
    assert "In 1 of the 3 it hurts." in text


def test_everything_from_a_run_is_escaped(make_run: MakeRun, tmp_path: Path) -> None:
    nasty = "<script>alert('\"&')</script>"
    run = make_run("feat", per_task(1), per_task(2))
    names = ("run", "method", "setting", "data", "data_digest", "split", "domain", "command", "commit")
    write_result(run / "result.json", **dict.fromkeys(names, nasty), versions={nasty: nasty})
    (run / "recipe.toml").write_text(f"{json.dumps(nasty)} = {json.dumps(nasty)}\n")
    page = Page(build_report([run], tmp_path / "report"))
    assert "script" not in page.tags
    assert "<script" not in page.source
    assert page.text.count(nasty) >= len(names)
    assert len(page.references) == 3


def test_two_builds_are_the_same_to_the_byte(built: Built, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("an earlier report")
    build_report(built.runs, tmp_path)
    for path in built.out.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_a_bad_run_leaves_no_report(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run("proto"), make_run("feat")]
    (runs[1] / "per_task.npy").unlink()
    with pytest.raises(UserError, match=r"per_task\.npy is missing"):
        build_report(runs, tmp_path / "report")
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    ("shift", "sentence"),
    [
        (0.1, "FEAT is ahead of ProtoNet by {size} points on the same 41 tasks."),
        (-0.1, "FEAT is behind ProtoNet by {size} points on the same 41 tasks."),
        (0.0, "Between FEAT and ProtoNet no difference can be shown on the same 41 tasks ({signed} points)."),
    ],
)
def test_the_summary_follows_the_numbers(make_run: MakeRun, shift: float, sentence: str) -> None:
    values = per_task(0, 0.5)
    noise = np.random.default_rng(0).normal(0, 0.05, 41)
    other = (values + noise - noise.mean() + shift).astype(np.float32)
    difference = naive_score(other.astype(float) - values)
    size, half = (f"{100 * abs(difference[name]):.2f}" for name in ("mean", "ci95"))
    signed = f"{100 * difference['mean']:+z.2f} ± {half}"
    runs = [make_run("proto", values), make_run("feat", other, method="FEAT")]
    assert summary_of(runs) == [sentence.format(size=f"{size} ± {half}", signed=signed)]
    _, adapted = summary_of([make_run("adapted", other, values, method="FEAT")])
    verb = "raises" if shift > 0 else "lowers" if shift < 0 else "makes no difference"
    assert adapted.startswith(f"The adapter {verb}")


def test_all_scores_of_a_setting_are_on_the_page(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(setting="generalised")
    seen = per_task(7)
    np.save(run / "seen.npy", seen)
    write_result(run / "result.json", scores={"seen_<b>": {**naive_score(seen), "per_task": "seen.npy"}})
    page = Page(build_report([run], tmp_path / "report"))
    score = naive_score(seen)
    number = f"{100 * score['mean']:.2f} ± {100 * score['ci95']:.2f}"
    assert "All scores of the setting generalised in %" in page.text
    assert re.search(rf"Method seen <b> \S+ {re.escape(number)}", page.text)
    assert "b" not in page.tags
    for suffix in ("md", "csv", "tex"):
        assert f"{100 * score['mean']:.2f}" in (tmp_path / "report" / f"scores-1.{suffix}").read_text()


def said(adds: Difference, over_foreign: Difference | None) -> str:
    item = Comparison(cast(Any, None), "FEAT", None, adds, over_foreign, None, None, alone=False, tasks=100)
    return " ".join(summary([item]))


@pytest.mark.parametrize("adds", [Difference(0.0004, 0.0006), Difference(-0.0004, 0.0006)])
def test_a_difference_that_may_be_0_is_not_credited(adds: Difference) -> None:
    assert said(adds, Difference(0.01, 0.001)).startswith("That the set adds anything cannot be shown")


def test_what_another_task_would_have_added_is_said_beside_it() -> None:
    text = said(Difference(0.0094, 0.0006), Difference(0.0005, 0.0005))
    assert text.startswith("The set itself adds 0.94 ± 0.06 points")
    assert "another task in place of the rest of the set, it is +0.05 ± 0.05 points" in text
    assert "another task" not in said(Difference(0.0094, 0.0006), None)
