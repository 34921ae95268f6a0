"""The documentation site. `make docs` builds it into docs/_build/html."""

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from functools import partialmethod
from pathlib import Path
from typing import Any

from docutils import nodes
from nbclient import NotebookClient
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))

import reference_pages

import fewset

project = "fewset"
author = copyright = "The fewset developers"
release = fewset.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = [
    "_build",
    "results/*/notes.md",  # the page of results holds the notes
    "**/.ipynb_checkpoints",
]
myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]
highlight_language = "text"  # what is not marked as Python is typed into a shell or printed by it
smartquotes = False  # two dashes begin an option, also where a text has it without quotes
default_role = "literal"  # `name` means the same in docstrings as in Markdown
add_module_names = False
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
maximum_signature_line_length = 90
# The inventories of other projects would come from the network, so only our own names are links; type
# variables have no page, and neither have the scalars of a head, which come with it.
nitpick_ignore_regex = [
    ("py:.*", r"(?!fewset\.).*"),
    ("py:class", r".*\.(_\w+|FeatureTransform|Registered|Scalars)"),
]

# A notebook is executed again when its code or that of fewset changes; a cell that fails ends the build.
# Notebooks find the commands of this environment, and keep their image sets apart from the user's.
ROOT = Path(__file__).parents[1]
SOURCES = sorted([*ROOT.glob("fewset/**/*.py"), *ROOT.glob("recipes/**/*.toml")])
DIGEST = hashlib.sha256(b"".join(file.read_bytes() for file in SOURCES)).hexdigest()
HOME = tempfile.mkdtemp(prefix="fewset-docs-")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
os.environ["FEWSET_HOME"] = HOME
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).with_name("_build") / "notebooks" / DIGEST[:12])
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # seconds for a cell
nb_render_markdown_format = "myst"  # tables, too
# What a command prints comes in pieces of 100 bytes, which nb_merge_streams would put on lines of their own.
NotebookClient.__init__ = partialmethod(NotebookClient.__init__, coalesce_streams=True)

html_theme = "furo"
html_title = f"fewset {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}

STUDIES = """
```{toctree}
:hidden:
:glob:

paper/*/*
paper/methods/*/*
```
"""


def adapt_page(_: Sphinx, page: str, source: list[str]) -> None:
    """On the site the README is the start page, and the tables of the studies belong below their guide."""
    source[0] = source[0].replace("](../README.md", "](index.md")
    if page == "paper":
        source[0] += STUDIES


def attribute_text(_: Sphinx, what: str, _name: str, _member: Any, _options: Any, lines: list[str]) -> None:
    """Napoleon takes what stands before a colon for the type of an attribute: a comment is put before it."""
    if what in ("attribute", "property"):
        lines[:] = [] if lines[0].startswith("Alias for field number") else ["..", "", *lines]


def use_dashes(_: Sphinx, tree: nodes.document) -> None:
    """Sphinx puts two hyphens between the name of a parameter and its text."""
    for text in list(tree.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" – "))


def skip_sklearn(_: Sphinx, _what: str, name: str, _member: Any, skip: bool, _options: Any) -> bool | None:
    """Methods that scikit-learn makes for its routing of metadata are documented there."""
    return True if name.startswith("set_") and name.endswith("_request") else skip or None


def setup(app: Sphinx) -> None:
    app.connect("autodoc-skip-member", skip_sklearn)
    app.connect("builder-inited", lambda app: reference_pages.write(Path(app.srcdir) / "reference"))
    app.connect("source-read", adapt_page)
    app.connect("autodoc-process-docstring", attribute_text, priority=0)  # before Napoleon
    app.connect("doctree-read", use_dashes)
