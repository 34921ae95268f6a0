"""One registry for all kinds: a name is given once, and installed packages bring members."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

from fewset.classify.classifier import FewShotClassifier
from fewset.core.errors import UserError
from fewset.core.registry import Registry
from fewset.data.images.importers import IMPORTERS, register_importer
from fewset.encoders import ENCODERS, register_encoder
from fewset.evaluation.protocols import PROTOCOLS, register_protocol
from fewset.models.adapters import ADAPTERS, register_adapter
from fewset.models.backbones import BACKBONES, register_backbone
from fewset.models.heads import HEADS, register_head
from tests.helpers.command_line import fewset_in_a_new_process
from tests.helpers.first_use import COLOURS, photos
from tests.helpers.processes import ROOT

REGISTER = {
    "adapter": (ADAPTERS, register_adapter),
    "backbone": (BACKBONES, register_backbone),
    "encoder": (ENCODERS, register_encoder),
    "head": (HEADS, register_head),
    "importer": (IMPORTERS, register_importer),
    "setting": (PROTOCOLS, register_protocol),
}

MEMBER = """
from torch import nn
from fewset import register_adapter

@register_adapter("from-afar")
class FromAfar(nn.Module):
    def __init__(self, dim):
        super().__init__()

    def forward(self, items, context=None):
        return 2 * items
"""


@pytest.mark.slow
@pytest.mark.parametrize("use", ["load", "rows", "photos", "file", "mixed"])
def test_threads_that_use_fewset_for_the_first_time_at_once_all_get_right_answers(
    use: str, tmp_path: Path
) -> None:
    """8 threads of a new process. FEWSET_STARTS=50 starts 50 of them: 400 answers."""
    FewShotClassifier().fit(photos(), COLOURS).save(tmp_path / "colours.fewset")
    for _ in range(int(os.environ.get("FEWSET_STARTS", "1"))):
        process = subprocess.run(
            [sys.executable, "-m", "tests.helpers.first_use", use, tmp_path / "colours.fewset"],
            cwd=ROOT, capture_output=True, text=True, check=True, timeout=200,
        )  # fmt: skip
        assert process.stdout.strip() == ""


def test_a_second_thread_waits_until_all_members_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "slow_members"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from fewset.core.registry import Registry\nSLOW = Registry('slow thing', __name__)"
    )
    (package / "a.py").write_text(
        "import time\nfrom slow_members import SLOW\ntime.sleep(0.2)\nSLOW.register('a')(len)"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(Registry, "kinds", dict(Registry.kinds))
    slow = import_module("slow_members").SLOW
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: "a" in slow, range(8))) == [True] * 8


class Newcomer:
    """Stands for a member of any kind."""


@pytest.mark.parametrize("kind", REGISTER)
def test_a_member_is_found_by_its_name_which_is_given_once(kind: str) -> None:
    registry, register = REGISTER[kind]
    known = set(registry)
    register("newcomer")(Newcomer)
    assert set(registry) == {*known, "newcomer"}
    assert len(registry) == len(known) + 1
    assert Registry.kinds[kind] is registry
    assert Newcomer in (registry["newcomer"], getattr(registry["newcomer"], "entries", None))
    for name in registry:
        with pytest.raises(UserError, match=f"the {kind} name '{name}' is taken by "):
            register(name)(Newcomer)
    assert "newcomr" not in registry
    with pytest.raises(UserError, match=f"unknown {kind} 'newcomr'. Did you mean 'newcomer'?"):
        registry["newcomr"]


def install(directory: Path, code: str) -> None:
    """A package as pip leaves it: its code, and a directory that names its entry points."""
    (directory / "from_afar.py").write_text(code)
    information = directory / "from_afar-1.0.dist-info"
    information.mkdir(exist_ok=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: from-afar\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[fewset.plugins]\nafar = from_afar\n")


def test_an_installed_package_brings_members(tmp_path: Path) -> None:
    install(tmp_path, MEMBER)
    process = fewset_in_a_new_process("params", beside=tmp_path)
    assert process.returncode == 0, process.stderr
    assert re.search(r"from-afar\W+0\W+0\W", process.stdout)
    assert "attention" in process.stdout


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ValueError('one\\nand two')", "ValueError: one and two"),
        (MEMBER.replace("from-afar", "attention"), "UserError: the adapter name 'attention' is taken by"),
    ],
    ids=["raises", "takes a name"],
)
def test_a_broken_package_is_named_on_one_line(tmp_path: Path, code: str, said: str) -> None:
    install(tmp_path, code)
    process = fewset_in_a_new_process("params", beside=tmp_path)
    assert process.returncode == 2
    assert process.stderr.startswith("error: the plugin 'afar' (from_afar) of the installed package")
    assert said in process.stderr
    assert process.stderr.count("\n") == 1
    assert "pip uninstall from-afar" in process.stderr
