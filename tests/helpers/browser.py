"""A real browser, and `fewset serve` as a user starts it, for tests of the page."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
# Without the flags about networking Chromium asks hosts of its maker at every start.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
]


@contextmanager
def launched() -> Iterator[Any]:
    """A headless Chromium, or a skipped test where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("there is no Chromium; install it: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def served(*words: str) -> Iterator[str]:
    """`fewset serve` in a process of its own; the address that it prints."""
    with tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen(
            [sys.executable, "-m", "fewset", "serve", "--port", "0", *words],
            cwd=tempfile.gettempdir(),
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        )
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            complaints.seek(0)
            assert found is not None, complaints.read()
            yield found[0]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=30)
            complaints.seek(0)
            said = complaints.read()
            assert "Traceback" not in said, said
