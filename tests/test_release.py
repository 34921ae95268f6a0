"""What a release depends on: one version, the lowest versions that are tested, links on the package page."""

import re
import tomllib

import pytest

import fewset
from tests.helpers.guides import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_the_version_is_that_of_the_citation_and_the_changelog() -> None:
    assert f"\nversion: {fewset.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    first = re.search(r"^## \[([^]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None
    assert first[1] == fewset.__version__


def test_the_lowest_versions_are_those_that_are_tested() -> None:
    extras = PROJECT["optional-dependencies"]
    required = [*PROJECT["dependencies"], *extras["hdf5"], *extras["report"]]
    lowest = {name: floor.split(".") for name, floor in (each.split(">=") for each in required)}
    tested = {name: pin.split(".") for name, pin in pins("constraints-oldest.txt").items()}
    assert lowest.keys() == tested.keys()
    for name, floor in lowest.items():  # 3.10 is 3.10.0
        assert tested[name] == floor + ["0"] * (len(tested[name]) - len(floor)), name


def test_all_extras_are_in_all_and_those_that_errors_name_exist() -> None:
    extras = PROJECT["optional-dependencies"]
    (all_of_them,) = extras["all"]
    assert set(re.findall(r"[a-z0-9]+", all_of_them)) - {"fewset"} == extras.keys() - {"all"}
    sources = "".join(file.read_text() for file in (ROOT / "fewset").rglob("*.py"))
    named = set(re.findall(r'import_extra\([^)]*, "(\w+)"\)', sources))
    assert {"hdf5", "web"} <= named <= extras.keys()


@pytest.mark.parametrize(
    "part", ["torch", "matplotlib", "jinja2", "h5py", "fastapi", "onnx", "wandb", "playwright"]
)
def test_only_torch_of_the_large_libraries_is_required(part: str) -> None:
    assert any(each.startswith(part) for each in PROJECT["dependencies"]) == (part == "torch")


def test_links_of_the_package_page_are_whole() -> None:
    """As hatch-fancy-pypi-readme replaces them."""
    hooks = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["metadata"]["hooks"]
    text = (ROOT / "README.md").read_text()
    for each in hooks["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    targets = re.findall(r"\]\(([^)]*)\)", text)
    assert len(targets) > 20
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    assert re.search(r"!\[[^]]*\]\(https://raw\.githubusercontent\.com/.*/serve\.png\)", text)
    ours = [target.partition("v$HFPR_VERSION/")[2].partition("#")[0] for target in targets]
    assert [path for path in ours if path and not (ROOT / path).exists()] == []
