"""The documentation site: it builds without a warning, its reference is complete, and it needs no network."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from pkgutil import walk_packages
from urllib.parse import unquote, urlsplit

import pytest

import fewset
from fewset.core.registry import Registry

DOCS = Path(__file__).parents[1] / "docs"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    strict = ["--quiet", "--nitpicky", "--fail-on-warning", "--keep-going"]
    process = subprocess.run(
        [sys.executable, "-m", "sphinx", *strict, "-d", out / "doctrees", DOCS, out / "html"],
        capture_output=True,
        text=True,
        check=False,
        cwd=DOCS.parent,
    )
    assert process.returncode == 0, process.stderr
    assert not process.stderr
    return out / "html"


class Page(HTMLParser):
    """What a page loads by itself, what it links to, and its anchors."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.loaded += [values["src"]] if "src" in values else []
        if "href" in values:
            (self.linked if tag == "a" else self.loaded).append(values["href"])
        self.anchors |= {values[name] for name in ("id", "name") if name in values}


def test_the_reference_lists_every_public_name(site: Path) -> None:
    anchors = Page(site / "reference" / "python.html").anchors
    assert {f"fewset.{name}" for name in fewset.__all__} <= anchors


def test_the_reference_lists_every_member(site: Path) -> None:
    list(walk_packages(fewset.__path__, "fewset."))  # imports the packages, which makes the registries
    assert {"adapter", "head", "backbone", "importer"} <= set(Registry.kinds)
    for kind, registry in Registry.kinds.items():
        titles = re.findall(r"<h2>(.*?)</h2>", (site / "reference" / f"{kind}s.html").read_text())
        for name in registry:
            assert any(f">{name}<" in title for title in titles), f"{kind} {name}"


def test_the_reference_has_no_markup_that_was_not_understood(site: Path) -> None:
    for file in (site / "reference").glob("*.html"):
        assert "`" not in file.read_text(encoding="utf-8"), file.name


def test_every_link_and_picture_leads_somewhere_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = {file: Page(file) for file in site.rglob("*.html")}
    assert len(pages) > 20
    for file, page in pages.items():
        for target in page.loaded:
            assert not urlsplit(target).netloc, f"{file.name} loads {target}"
        for target in page.loaded + page.linked:
            scheme, host, path, _, anchor = urlsplit(target)
            if host or scheme:
                continue
            there = (file.parent / unquote(path)).resolve() if path else file
            assert there.is_file(), f"{file.name} links to {target}"
            if anchor and there in pages:
                assert anchor in pages[there].anchors, f"{file.name} links to {target}"
