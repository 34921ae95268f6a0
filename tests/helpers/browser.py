"""A real browser, npm, and `fewset serve` as a user starts it, for tests of the pages."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from PIL import Image
from playwright.sync_api import expect, sync_playwright

ROOT = Path(__file__).parents[2]
WAIT = 120_000  # milliseconds, for a machine that is busy with other things
AXE, RUNTIME = "axe-core@4.14.0", "onnxruntime-web@1.30.0"
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
def served(*words: str, files: int | None = None, home: Path | None = None) -> Iterator[str]:
    """`fewset serve` in a process of its own, which may open so many files; the address that it prints."""

    def limit() -> None:
        if files is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    with tempfile.TemporaryFile("w+") as complaints, tempfile.TemporaryDirectory() as empty:
        environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "FEWSET_HOME": str(home or empty)}
        process = subprocess.Popen(
            [sys.executable, "-m", "fewset", "serve", "--port", "0", *words],
            cwd=tempfile.gettempdir(),
            env=os.environ | environment,
            preexec_fn=limit,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        )
        try:
            assert process.stdout is not None
            found = next(filter(None, (re.search(r"http://\S+", line) for line in process.stdout)), None)
            complaints.seek(0)
            assert found is not None, complaints.read()
            yield found[0]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=30)
            complaints.seek(0)
            said = complaints.read()
            assert "Traceback" not in said, said


@contextmanager
def served_folder(folder: Path) -> Iterator[str]:
    """A folder as a user would serve it, by Python's own server; its address."""
    words = ["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(folder)]
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        yield re.findall(r"http://\S+/", process.stdout.readline())[0]
    finally:
        process.terminate()
        process.wait(timeout=30)


def run_npm(*words: str, folder: Path) -> str:
    """What npm prints in a folder; the test is skipped where there is no npm, or no registry for it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm; install it: apt-get install npm")
    try:
        run = subprocess.run(
            [npm, *words], cwd=folder, capture_output=True, text=True, timeout=120, check=True
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"`npm {words[0]}` failed; set up its registry: {error.stderr!r}")
    return run.stdout


def installed_runtime(folder: Path) -> Path:
    """The directory with the files of onnxruntime-web, which npm installs into a folder."""
    options = ("--ignore-scripts", "--no-audit", "--no-fund")
    run_npm("install", *options, RUNTIME, "--prefix", ".", folder=folder)
    return folder / "node_modules" / "onnxruntime-web" / "dist"


def axe_script(folder: Path) -> str:
    """axe-core, which finds what people with a screen reader or a keyboard cannot use, got by npm."""
    printed = run_npm("pack", AXE, "--loglevel=error", folder=folder)
    with tarfile.open(folder / printed.split()[-1]) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def shoot(page: Any, name: str, selector: str | None = None, full_page: bool = True) -> None:
    """A picture for the guides, in few colours, where FEWSET_SCREENSHOTS names a folder for it."""
    folder = os.environ.get("FEWSET_SCREENSHOTS")
    if folder is None:
        return
    page.evaluate("scrollTo(0, 0)")  # what stays in view while the page scrolls is at its place
    taken = page.locator(selector).screenshot() if selector else page.screenshot(full_page=full_page)
    Image.open(BytesIO(taken)).convert("RGB").quantize(96).save(Path(folder) / f"{name}.png", optimize=True)


def own(url: str, server: str) -> bool:
    return url.startswith((server, f"blob:{server}", "data:"))


def post(server: str, path: str, body: dict[str, Any]) -> None:
    data = json.dumps(body).encode()
    urlopen(Request(f"{server}{path}", data, {"content-type": "application/json"})).close()


def counted(page: Any, selector: str, count: int) -> None:
    """Wait until there are so many, nothing is uploaded any more, and everything is shown."""
    expect(page.locator(selector)).to_have_count(count, timeout=WAIT)
    expect(page.locator("#progress")).to_be_hidden(timeout=WAIT)
    expect(page.locator("[aria-busy=true]")).to_have_count(0, timeout=WAIT)


def add_class(page: Any, name: str) -> None:
    page.get_by_label("New class").fill(name)
    page.get_by_role("button", name="Add class").click()
    page.get_by_role("region", name=f"Class {name}", exact=True).wait_for()


def teach(page: Any, fruit: Path) -> None:
    page.locator("#folders").set_input_files(str(fruit / "photos"))
    counted(page, ".photos li", 15)


def drop(page: Any, selector: str, files: list[Path]) -> None:
    """Drop files as the browser tells of it."""
    given = [{"name": file.name, "bytes": list(file.read_bytes())} for file in files]
    transfer = page.evaluate_handle(
        """(files) => {
            const transfer = new DataTransfer();
            for (const file of files)
                transfer.items.add(new File([new Uint8Array(file.bytes)], file.name, { type: "image/png" }));
            return transfer;
        }""",
        given,
    )
    for event in ("dragover", "drop"):
        page.dispatch_event(selector, event, {"dataTransfer": transfer})
