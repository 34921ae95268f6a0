"""Every public name says what it takes and what it raises, and its example runs."""

import doctest
import inspect
import re
from importlib import import_module
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


PACKAGE = Path(fewset.__file__).parent
WITH_EXAMPLES = [file for file in sorted(PACKAGE.rglob("*.py")) if ">>> " in file.read_text(encoding="utf-8")]


@pytest.mark.parametrize("file", WITH_EXAMPLES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_examples_of_other_names_run_in_their_module(file: Path) -> None:
    name = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for example in doctest.DocTestFinder().find(import_module(name), name):
        if example.name.rpartition(".")[2] not in MEMBERS:
            assert not doctest.DocTestRunner().run(example).failed


@pytest.mark.parametrize("name", MEMBERS)
def test_every_argument_is_described_and_what_a_function_raises(name: str) -> None:
    member = MEMBERS[name]
    text = inspect.getdoc(member) or ""
    arguments = inspect.signature(member).parameters
    for argument in arguments:
        assert re.search(rf"^    {argument}: ", text, flags=re.MULTILINE), argument
    if arguments and not inspect.isclass(member):
        assert "\nRaises:\n    ValueError: " in text
