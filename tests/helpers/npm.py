"""npm, for packages of the web that tests need and the product does not ship."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

# What npm says of a registry that is not there, or lets nobody in; whatever else it says is a failed test.
_UNREACHABLE = {
    *("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "EHOSTUNREACH"),
    *("ERR_SOCKET_TIMEOUT", "E401", "E403", "E407", "E502", "E503"),
}
_PATIENCE = 120  # seconds: without its registry npm tries again for many minutes


def run_npm(*words: str, folder: Path) -> str:
    """What npm prints in a folder; where it is not there or gets nothing, the test is skipped, saying why."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm; install it: apt-get install npm")
    try:
        done = subprocess.run(
            [npm, *words], cwd=folder, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"`npm {words[0]}` had no answer in {_PATIENCE} s; set up its registry")
    reason = re.search(r"npm (?:error|ERR!) code (\w+)", done.stderr)
    if done.returncode and reason is not None and reason[1] in _UNREACHABLE:
        pytest.skip(f"`npm {words[0]}` did not reach its registry ({reason[1]}); set it up")
    assert done.returncode == 0, done.stderr
    return done.stdout
