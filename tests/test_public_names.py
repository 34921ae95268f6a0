"""Every public name says what it takes and what it raises, and its example runs."""

import doctest
import inspect
import re
from pathlib import Path

import pytest

import fewset

MEMBERS = {name: getattr(fewset, name) for name in fewset.__all__}


@pytest.mark.parametrize("name", MEMBERS)
def test_the_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty directory and without any name from outside: a reader can copy it as it stands."""
    monkeypatch.chdir(tmp_path)
    (example,) = (
        found
        for found in doctest.DocTestFinder(recurse=False).find(MEMBERS[name], name, globs={})
        if found.examples
    )
    result = doctest.DocTestRunner().run(example)
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize("name", MEMBERS)
def test_every_argument_is_described_and_what_a_function_raises(name: str) -> None:
    member = MEMBERS[name]
    text = inspect.getdoc(member) or ""
    arguments = inspect.signature(member).parameters
    for argument in arguments:
        assert re.search(rf"^    {argument}: ", text, flags=re.MULTILINE), argument
    if arguments and not inspect.isclass(member):
        assert "\nRaises:\n    ValueError: " in text
