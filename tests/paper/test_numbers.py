"""The transcription of the paper's numbers, checked against its LaTeX source where that is at hand."""

import re
import tomllib
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest

from fewset.paper.numbers import number_for, paper_table
from fewset.report.loading import LoadedResult, load_result
from fewset.report.tables import Estimate
from tests.helpers.real_files import real_file
from tests.helpers.results import MakeRun

TABLES: list[dict[str, Any]] = tomllib.loads(
    resources.files("fewset.paper").joinpath("numbers.toml").read_text(encoding="utf-8")
)["table"]
STUDIES = {
    "benchmark": 6,
    "transductive": 1,
    "generalised": 1,
    "cross-domain": 1,
    "low-shot": 1,
    "adaptation": 1,
    "averaging": 1,
    "heads": 1,
    "layers": 1,
    "contrastive": 1,
    "similarity": 2,
}


@pytest.fixture(scope="module")
def tex() -> str:
    return real_file("feat_cvpr2020.tex").read_text(encoding="utf-8")


def printed_rows(tex: str, label: str) -> list[tuple[str, list[str], bool]]:
    """The lines with numbers of a table: the heading above and the row's name, its numbers, whether cited."""
    place = tex.index(rf"\label{{{label}}}")
    body = re.sub(r"\n\s*&", " &", tex[tex.rindex(r"\begin{table", 0, place) : place])
    rows, heading = [], ""
    for line in body.splitlines():
        name, _, cells = line.partition("&")
        numbers = re.findall(r"(\d+\.\d+)(?: *\\pm *(\d+\.\d+))?", re.sub(r"[{}$]|\\bf|\\tiny", "", cells))
        if numbers:
            values = [f"{mean} ± {half}" if half else mean for mean, half in numbers]
            rows.append((f"{heading}|{_plain(name)}", values, r"\cite" in name))
        elif not name.strip().startswith(r"\midrule"):
            heading = _plain(name)
    return rows


def _plain(text: str) -> str:
    """A name without its markup and spaces."""
    marks = {r"\feat": "FEAT", r"\ProtoNet": "ProtoNet", r"\dagger": "†", r"\ddagger": "‡", "w/": "with"}
    for mark, meant in marks.items():
        text = text.replace(mark, meant)
    text = re.sub(r"~\\cite\{.*?\}|\\multicolumn\{.*?\}|\\(textsc|textbf|bf|small|sc)\b", "", text)
    return re.sub(r"[^\w.†‡-]", "", text)


def is_row(name: str, row: dict[str, Any]) -> bool:
    """Whether a printed row, named "heading|name", is that of the transcription."""
    heading, _, own = name.lower().partition("|")
    own = own.removeprefix("ours").removesuffix("ours").removeprefix("lambda")
    wanted = row["row"].lower()
    if wanted in ("cosine", "euclidean"):
        return wanted in heading and own == "feat"
    return own == wanted and row.get("panel", "").lower().replace(" ", "") in heading


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table['study']}-{table['on']}")
def test_every_number_is_the_one_that_is_printed(tex: str, table: dict[str, Any]) -> None:
    """And it is marked as cited where its name is printed with a citation."""
    printed = [row for label in table["labels"] for row in printed_rows(tex, label)]
    for row in table["rows"]:
        count, found = len(row["numbers"]), []
        # The text, not the table, says that MAML with ResNet-12 is cited.
        cited = (row["row"], table["on"]) == ("MAML", "miniImageNet, ResNet-12")
        for name, numbers, citation in printed:
            if is_row(name, row):
                # Two backbones are printed in turn: ConvNet, ResNet, ConvNet, ResNet.
                backbone = table["backbone"] == "resnet12"
                found.append(numbers[int(backbone) :: 2] if len(numbers) == 2 * count else numbers)
                cited |= citation and row["numbers"][0] in numbers
        assert row["numbers"] in found, f"{row} is not among {found}"
        assert row.get("cited", False) == cited, row


def test_every_study_has_its_tables_and_one_default() -> None:
    for study, count in STUDIES.items():
        own = [table for table in TABLES if table["study"] == study]
        assert len(own) == count
        assert len({(table["data"], table["backbone"]) for table in own}) == count
        assert sum(table.get("default", False) for table in own) == 1
    assert len(TABLES) == sum(STUDIES.values())


FEAT = ("", "FEAT", "1-shot 5-way")


@pytest.mark.parametrize(
    ("study", "data", "backbone", "place", "number"),
    [
        ("benchmark", "miniimagenet", "resnet12", FEAT, Estimate(66.78 / 100, 0.20 / 100)),
        ("benchmark", "cub", "conv4", FEAT, Estimate(68.87 / 100, 0.22 / 100)),
        # The default table, where there is none of the same data and backbone.
        ("benchmark", "cub", "resnet12", FEAT, Estimate(55.15 / 100, 0.20 / 100)),
        ("benchmark", "", "", FEAT, Estimate(55.15 / 100, 0.20 / 100)),
        ("cross-domain", "strokes", "conv4", ("", "FEAT", "A → B"), Estimate(30.89 / 100, 0.17 / 100)),
        ("low-shot", "", "", ("All with prior", "ProtoNet", "10-shot"), Estimate(79.5 / 100, None, 1, "*")),
        # ProtoNet is in the default table, but not in that of this data and backbone.
        ("benchmark", "tieredimagenet", "wrn28_10", ("", "ProtoNet", "1-shot 5-way"), None),
        ("ways", "strokes", "conv4", ("1-shot, trained 5-way", "FEAT", "5"), None),
        ("generalised", "strokes", "conv4", ("1-shot learning", "FEAT", "harmonic mean"), None),
    ],
)
def test_the_number_of_a_place(
    study: str, data: str, backbone: str, place: tuple[str, str, str], number: Estimate | None
) -> None:
    table = paper_table(study, data, backbone)
    assert (table and table.numbers.get(place)) == number


# The number beside a result

RECIPE = {
    "data.set": "miniimagenet",
    "model.backbone": "conv4",
    "model.transductive": False,
    "train.epochs": 7,
    "train.shot": 1,
}


def result_of(make_run: MakeRun, recipe: dict[str, Any], **fields: Any) -> LoadedResult:
    run = make_run(**{"method": "FEAT", "data": "miniimagenet", "query": 15, **fields})
    return replace(load_result(run), recipe=RECIPE | recipe)


@pytest.mark.parametrize(
    ("fields", "recipe", "mean"),
    [
        ({}, {}, 55.15),
        ({"shot": 5}, {"train.shot": 5}, 71.61),
        ({"method": "SimpleShot", "shot": 5}, {"train.epochs": 0}, 66.92),  # not trained for any shots
        ({}, {"model.backbone": "resnet12"}, 66.78),
        ({"data": "cub"}, {"data.set": "cub"}, 68.87),
        ({"setting": "transductive", "variant": "double-dagger"}, {}, 57.04),
        ({"setting": "transductive", "variant": "semi-protonet", "method": "ProtoNet"}, {}, 55.50),
        ({"setting": "transductive", "variant": "dagger"}, {"model.transductive": True}, 56.49),
        (
            {"setting": "transductive", "variant": "semi-protonet", "method": "ProtoNet"},
            {"model.head": "semi_prototype"},
            55.50,
        ),
        ({"setting": "generalised"}, {}, 40.50),
    ],
)
def test_a_result_has_the_number_of_its_own_table(
    make_run: MakeRun, fields: dict[str, Any], recipe: dict[str, Any], mean: float
) -> None:
    found = number_for(result_of(make_run, recipe, **fields))
    assert found is not None
    assert found[0].mean == mean / 100


@pytest.mark.parametrize(
    ("fields", "recipe"),
    [
        ({"data": "strokes"}, {"data.set": "strokes"}),
        ({"data": "cub"}, {}),  # trained on miniImageNet
        ({}, {"model.backbone": "resnet18"}),
        ({}, {"model.transductive": True}),
        ({"method": "ProtoNet"}, {"model.head": "semi_prototype"}),
        ({"method": "Supervised"}, {}),
        ({"shot": 5}, {}),  # trained for 1 shot
        ({"shot": 2}, {"train.shot": 2}),
        ({"way": 7}, {}),
        ({"query": 13}, {}),
        ({"split": "val"}, {}),
        ({"domain": "photo"}, {}),
        ({"setting": "transductive", "variant": "dagger-adapted-queries"}, {}),
        ({"setting": "transductive", "variant": "dagger"}, {"model.backbone": "resnet12"}),
        ({"setting": "generalised", "way": 7}, {}),
        ({"setting": "cross-domain", "data": "officehome"}, {"data.set": "officehome"}),
        ({"setting": "low-shot"}, {"model.backbone": "features"}),
    ],
)  # fmt: skip
def test_a_result_on_anything_else_has_none(
    make_run: MakeRun, fields: dict[str, Any], recipe: dict[str, Any]
) -> None:
    assert number_for(result_of(make_run, recipe, **fields)) is None
