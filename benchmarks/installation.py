"""fewset in an empty environment: from the wheel alone, without the source tree, with time and size."""

import os
import statistics
import subprocess
import time
import urllib.request
import venv
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

from fewset.compute.machine import describe
from fewset.core.errors import UserError

_COLOURS = {"brick": (160, 60, 40), "grass": (60, 140, 50), "water": (50, 90, 160)}
_PORT = 8399
_STARTS = 5
_PATIENCE = 120  # seconds until the page answers


class _Environment:
    """A virtual environment and a working directory with photos, which a temporary directory holds."""

    def __init__(self, place: Path, echo: Callable[[str], None]) -> None:
        self.work, self.bin = place / "work", place / "venv" / "bin"
        self.echo = echo
        venv.create(place / "venv", with_pip=True)
        hidden = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
        self.variables = {name: value for name, value in os.environ.items() if name not in hidden}
        self.variables |= {"FEWSET_HOME": str(place / "home"), "PATH": f"{self.bin}:{os.environ['PATH']}"}
        for number in range(6):
            for label, colour in _COLOURS.items():
                folder = self.work / (f"photos/{label}" if number < 5 else "new")
                folder.mkdir(parents=True, exist_ok=True)
                _picture(colour, number).save(folder / f"{label}{number}.jpg")

    def run(self, *command: str) -> float:
        """The seconds that a command takes, which must end well."""
        self.echo(f"$ {' '.join(command)}")
        start = time.perf_counter()
        done = subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=self.work, env=self.variables, capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.perf_counter() - start
        if done.returncode:
            raise UserError(
                f"{' '.join(command)} ended with {done.returncode}: {(done.stdout + done.stderr)[-800:]}"
            )
        return round(seconds, 2)

    def install(self, *what: str) -> dict[str, Any]:
        """Install by pip; the packages that are there then, and their size."""
        seconds = self.run("python", "-m", "pip", "install", "--quiet", *what)
        (site,) = self.bin.parent.glob("lib/python*/site-packages")
        files = [file for file in site.rglob("*") if file.is_file()]
        return {
            "seconds": seconds,
            "packages": len(list(site.glob("*.dist-info"))),
            "megabytes": round(sum(file.stat().st_size for file in files) / 1e6),
        }

    def serve(self) -> float:
        """Seconds from `fewset serve` to its page."""
        command = (str(self.bin / "fewset"), "serve", "my.fewset", "--port", str(_PORT))
        self.echo(f"$ {' '.join(command)}")
        start = time.perf_counter()
        server = subprocess.Popen(command, cwd=self.work, env=self.variables, stdout=subprocess.DEVNULL)
        try:
            while time.perf_counter() - start < _PATIENCE and server.poll() is None:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{_PORT}/") as answer:
                        answer.read()
                    return round(time.perf_counter() - start, 2)
                except OSError:
                    time.sleep(0.1)
        finally:
            server.terminate()
            server.wait()
        raise UserError("fewset serve showed no page")

    def start_seconds(self, statement: str) -> float:
        """The median time of a new Python that runs a statement."""
        return statistics.median(self.run("python", "-c", statement) for _ in range(_STARTS))


def try_installation(wheel: Path, torch: str, echo: Callable[[str], None]) -> dict[str, Any]:
    """The README's commands in an empty environment; the record of their times and of the sizes."""
    source = f"fewset{{}} @ {wheel.resolve().as_uri()}"
    with TemporaryDirectory() as name:
        empty = _Environment(Path(name), echo)
        steps: dict[str, Any] = {"torch": empty.install(torch), "fewset": empty.install(source.format(""))}
        steps["seconds"] = {
            "python -c pass": empty.start_seconds("pass"),
            "import fewset": empty.start_seconds("import fewset"),
            "import torch": empty.start_seconds("import torch"),
            "fewset --help": empty.run("fewset", "--help"),
            "fewset fit": empty.run("fewset", "fit", "photos", "-o", "my.fewset"),
            "fewset predict": empty.run("fewset", "predict", "my.fewset", "new", "--reject"),
        }
        seconds = steps["seconds"]
        steps["fewset[web]"] = empty.install(source.format("[web]"))
        seconds["fewset serve, to its page"] = empty.serve()
        steps["fewset[export]"] = empty.install(source.format("[export]"))
        seconds["fewset export"] = empty.run("fewset", "export", "my.fewset", "-o", "my.onnx")
        seconds["fewset demo"] = empty.run("fewset", "demo")
        steps["fewset[report]"] = empty.install(source.format("[report]"))
        seconds["fewset report"] = empty.run("fewset", "report", "fewset-demo/families-conv4-weighing")
    return {"wheel": wheel.name, "wheel_megabytes": round(wheel.stat().st_size / 1e6, 1), **steps} | {
        "environment": describe()
    }


def _picture(colour: tuple[int, int, int], seed: int) -> Image.Image:
    """Noise in one colour, as coarse as leaves."""
    cells = np.random.default_rng(seed).normal(0, 30, (24, 32, 1)) + np.array(colour)
    return Image.fromarray(cells.clip(0, 255).astype(np.uint8)).resize((640, 480))
