"""The options of `fewset bench` reach the measuring functions, and the record is written to its file."""

import json
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from fewset.bench import parts
from tests.helpers.command_line import fail, succeed

KEPT = Path(__file__).parents[2] / "results" / "performance"
OPTIONS = {"data": "tiny", "backbone": "res12", "size": 17, "batch": 11, "steps": 2}


@pytest.mark.parametrize("part", parts.PARTS)
def test_every_option_is_passed_on(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = json.loads((KEPT / "train.json").read_text())
    taken = signature(parts.PARTS[part])
    given: dict[str, Any] = {}

    def measure(setup: parts.Measuring, **options: Any) -> dict[str, Any]:
        given.update(options, **asdict(setup))
        return record

    measure.__signature__ = taken  # type: ignore[attr-defined]
    monkeypatch.setitem(parts.PARTS, part, measure)
    chosen = {name: value for name, value in OPTIONS.items() if name in taken.parameters}
    chosen |= {"repetitions": 3, "device": "cpu"}
    words = [word for key, value in chosen.items() for word in (f"--{key}", value)]
    out, plugins = tmp_path / "records" / "one.json", [tmp_path / "a.py", tmp_path / "b.py"]
    words += ["--out", out, "--plugin", plugins[0], "--plugin", plugins[1]]
    output = succeed("bench", part, *words)
    assert given == {"plugins": tuple(plugins), **chosen}
    assert json.loads(out.read_text()) == record
    assert output.endswith(f"record: {out}\n")
    assert json.loads(succeed("bench", part, *words, "--json")) == record


def test_options_of_another_part_are_an_error() -> None:
    assert "--backbone is not an option" in fail("bench", "classify", "--backbone", "conv4")
    assert "unknown part" in fail("bench", "training")
