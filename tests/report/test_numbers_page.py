"""The page of numbers: each of ours is that of a kept record, each of the paper's is as printed there."""

import re

from fewset.experiments.result import read_result
from fewset.paper.numbers import paper_table
from tests.helpers.guides import ROOT

RUNS = ROOT / "results" / "runs"
MINI, CUB = "miniimagenet/miniimagenet-conv4", "cub/cub-conv4"
OURS = {
    "ProtoNet": (
        f"{MINI}-protonet-1shot", f"{MINI}-best-protonet-5shot",
        f"{CUB}-protonet-1shot", f"{CUB}-protonet-5shot",
    ),
    "ProtoNet + LayerNorm": (None, None, f"{CUB}-norm-1shot", f"{CUB}-norm-5shot"),
    "Item-wise network": (None, None, f"{CUB}-itemwise-1shot", f"{CUB}-itemwise-5shot"),
    "FEAT": (f"{MINI}-feat-1shot", f"{MINI}-best-feat-5shot", f"{CUB}-feat-1shot", f"{CUB}-feat-5shot"),
    "FEAT, each image with its mirror image": (
        f"{MINI}-feat-1shot", f"{MINI}-best-feat-5shot", f"{CUB}-best-feat-1shot", f"{CUB}-best-feat-5shot",
    ),
}  # fmt: skip


METHODS = {
    "ProtoNet": "protonet",
    "ProtoNet + LayerNorm": "norm",
    "Item-wise network": "itemwise",
    "FEAT": "feat",
}
JOINT = {
    name: (*(f"miniimagenet-96/miniimagenet-joint-{method}-{shot}shot" for shot in (1, 5)), None, None)
    for name, method in METHODS.items()
}


def rows() -> dict[str, dict[str, list[str]]]:
    """The cells of each row, by the bold heading above it."""
    found: dict[str, dict[str, list[str]]] = {}
    heading = ""
    for line in (ROOT / "docs" / "numbers.md").read_text(encoding="utf-8").splitlines():
        name, *cells = (cell.strip() for cell in line.strip("|").split("|")) if line.startswith("|") else [""]
        if bold := re.match(r"\*\*(.*?)\*\*", name):
            heading = bold[1]
        elif name and heading:
            found.setdefault(heading, {})[name] = cells
    return found


def test_ours_are_those_of_the_records() -> None:
    for heading, records in {"fewset": OURS, "fewset, joint training": JOINT}.items():
        shown = rows()[heading]
        assert shown.keys() == records.keys()
        for name, runs in records.items():
            means = [run and 100 * read_result(RUNS / run / "result.json").mean for run in runs]
            assert shown[name] == ["–" if mean is None else f"{mean:.2f}" for mean in means], name
    authors = read_result(RUNS / "miniimagenet/feat-of-the-authors-pretraining/result.json")
    (cells,) = rows()["the authors' pre-trained weights"].values()
    assert cells[0] == f"{100 * authors.mean:.2f}"


def test_the_papers_are_as_printed() -> None:
    for name, cells in rows()["the paper"].items():
        tables = [paper_table("benchmark", data, "conv4") for data in ("miniimagenet", "cub")]
        printed = [table.numbers["", name, f"{shot}-shot 5-way"].mean for table in tables for shot in (1, 5)]
        assert cells == [f"{100 * mean:.2f}" for mean in printed]
