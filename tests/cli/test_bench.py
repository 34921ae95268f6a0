"""The options of `fewset bench` reach what measures, and the record is where it was asked for."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from fewset.bench import parts
from tests.helpers.command_line import fail, succeed

KEPT = Path(__file__).parents[2] / "results" / "performance"
OWN = {
    "evaluate": {
        "split": "val", "run": "omniglot-feat-1shot", "way": 3, "shot": 2, "query": 7, "tasks": 19,
        "published_tasks": 5,
    },
    "train": {"batch": 11, "steps": 2},
    "data": {"batch": 11, "steps": 2, "images": 13},
    "classify": {"images": 7, "photos": 11, "width": 101, "height": 53},
}  # fmt: skip
SHARED = {"repetitions": 3, "device": "cpu"}
MODEL = {"data": "tiny", "backbone": "res12", "size": 17}


@pytest.mark.parametrize("part", OWN)
def test_every_option_is_passed_on(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = json.loads((KEPT / "train.json").read_text())
    given: dict[str, Any] = {}

    def measure(setup: parts.Measuring, **options: Any) -> dict[str, Any]:
        given.update(options, **asdict(setup))
        return record

    monkeypatch.setitem(parts.PARTS, part, measure)
    chosen = OWN[part] | SHARED | ({} if part == "classify" else MODEL)
    words = [word for key, value in chosen.items() for word in (f"--{key.replace('_', '-')}", value)]
    out, plugins = tmp_path / "records" / "one.json", [tmp_path / "a.py", tmp_path / "b.py"]
    words += ["--out", out, "--plugin", plugins[0], "--plugin", plugins[1]]
    output = succeed("bench", part, *words)
    assert given == {"plugins": tuple(plugins), **chosen}
    assert json.loads(out.read_text()) == record
    assert output.endswith(f"record: {out}\n")
    assert json.loads(succeed("bench", part, *words, "--json")) == record


def test_what_has_no_model_takes_no_options_of_one() -> None:
    assert "No such option" in fail("bench", "classify", "--backbone", "conv4")
