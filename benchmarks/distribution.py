"""What is in the wheel and in the source distribution, against what git tracks."""

import re
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path
from zipfile import ZipFile

from fewset.core.errors import UserError

# Of the repository to its place in the wheel; the rest of the repository is not for users.
_INSTALLED = {"fewset/": "fewset/", "recipes/": "fewset/_recipes/", "weights/": "fewset/_weights/"}
_LEFT_OUT = (".ci/", "results/unfinished/")
_LISTED = 5


def check_contents(dist: Path) -> str:
    """Both have every tracked file that they should have and no other; their sizes, in words."""
    wheel, sdist = _only(dist, "*.whl"), _only(dist, "*.tar.gz")
    git = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True)
    tracked = [name for name in git.stdout.split("\0") if name and Path(name).exists()]
    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        readme = archive.read(metadata).decode()
    installed = (
        target + name.removeprefix(source)
        for name in tracked
        for source, target in _INSTALLED.items()
        if name.startswith(source)
    )
    _same(wheel, names, installed)
    with tarfile.open(sdist) as archive:
        members = [member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()]
    _same(sdist, members, [*(name for name in tracked if not name.startswith(_LEFT_OUT)), "PKG-INFO"])
    relative = re.findall(r"\]\((?!https://|#)[^)]*\)", readme)
    if relative:
        raise UserError(f"{wheel}: its README has links that lead nowhere on a package page: {relative}")
    return "\n".join(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB" for file in (wheel, sdist))


def _only(dist: Path, pattern: str) -> Path:
    found = sorted(dist.glob(pattern))
    if len(found) != 1:
        raise UserError(f"{dist} has {len(found)} files {pattern}, expected one; run `make dist`")
    return found[0]


def _same(file: Path, names: Iterable[str], expected: Iterable[str]) -> None:
    got, wanted = set(names), set(expected)
    for what, difference in (("lacks", wanted - got), ("has, and git does not,", got - wanted)):
        if difference:
            raise UserError(f"{file} {what} {len(difference)} files: {sorted(difference)[:_LISTED]}")
