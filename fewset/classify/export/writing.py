"""What `fewset export` writes: files and folders that appear whole or not at all."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewset.classify.export.browser_runtime import FILES as RUNTIME
from fewset.classify.export.classifier_graph import joined_graph
from fewset.classify.export.description import ENCODER_FILE, head_description
from fewset.classify.export.encoder_graph import encoder_graph
from fewset.classify.export.few_shot_model import TaskGraphs
from fewset.classify.learned import Learned
from fewset.core.errors import UserError
from fewset.encoders import Encoder
from fewset.encoders.onnx_rows import serialised
from fewset.io.files import check_output, replacing_directory, write_bytes
from fewset.models.task_model import TaskModel

HEAD_FILE = "head.json"
JOINED_FILE = "joined.onnx"
_PAGE = Path(__file__).parent / "page"
_SHARED = ("dom.js", "gathering.js", "icon.svg", "page.css")  # with the page of `fewset serve`
_PARTS = {ENCODER_FILE, HEAD_FILE, JOINED_FILE, "head.onnx"}


@dataclass(frozen=True, eq=False)
class ClassifierExport:
    """A classifier with the encoder that made its rows."""

    learned: Learned
    encoder: Encoder
    share: float | None
    """Of the classes' own photos that may be turned away as none of these."""

    def __post_init__(self) -> None:
        self.learned.check_encoder(self.encoder)

    def write_file(self, path: Path) -> None:
        """One ONNX file, from pixels to probabilities."""
        write_bytes(path, self._joined())

    def write_folder(self, folder: Path, joined: bool = False) -> None:
        """`encoder.onnx` and `head.json`; on request the one file beside them."""
        with replacing_directory(folder) as temporary:
            self._write_parts(temporary)
            if joined:
                (temporary / JOINED_FILE).write_bytes(self._joined())

    def write_page(self, folder: Path, runtime: list[Path]) -> None:
        """The folder with a page that computes in the browser, by the files of `runtime`."""
        with replacing_directory(folder) as temporary:
            self._write_parts(temporary)
            shared = (_PAGE.parents[1] / "web" / "page" / name for name in _SHARED)
            for file in (*_PAGE.iterdir(), *shared, *runtime):
                shutil.copyfile(file, temporary / file.name)

    def _write_parts(self, folder: Path) -> None:
        graph = encoder_graph(self.encoder)
        (folder / ENCODER_FILE).write_bytes(serialised(graph, f"the encoder {self.encoder.id}"))
        described = json.dumps(head_description(self.learned, self.encoder, self.share), ensure_ascii=False)
        (folder / HEAD_FILE).write_text(described + "\n", encoding="utf-8")

    def _joined(self) -> bytes:
        return serialised(joined_graph(self.learned, self.encoder, self.share), "the classifier")


@dataclass(frozen=True, eq=False)
class ModelExport:
    """A model of few-shot tasks."""

    model: TaskModel

    def write_file(self, path: Path) -> None:
        """One ONNX file: support and queries in, logits out."""
        write_bytes(path, serialised(TaskGraphs(self.model).joined(), "the model"))

    def write_folder(self, folder: Path, joined: bool = False) -> None:
        """`encoder.onnx` and `head.onnx`; on request the one file beside them."""
        graphs = TaskGraphs(self.model)
        files: dict[str, Any] = {"head.onnx": graphs.head()}
        if graphs.takes_pixels:
            files[ENCODER_FILE] = graphs.encoder()
        if joined:
            files[JOINED_FILE] = graphs.joined()
        with replacing_directory(folder) as temporary:
            for name, graph in files.items():
                (temporary / name).write_bytes(serialised(graph, "the model"))


def check_target(path: Path, *, directory: bool, force: bool, read: Iterable[Path] = ()) -> None:
    """Refuse, before the work, what is there already; with `force` what is not an export, or is `read`."""
    read = list(read)
    check_output(path, read, directory=directory)
    if path.is_symlink():
        raise UserError(f"{path} is a link, which cannot be replaced; choose another name")
    for needed, what in ((Path.cwd(), "the working directory"), *((file, file.name) for file in read)):
        if directory and needed.resolve().is_relative_to(path.resolve()):
            raise UserError(f"{what} is in {path}, which would be replaced as a whole; choose another name")
    if not path.exists() or (directory and not any(path.iterdir())):
        return
    if not force:
        raise UserError(f"{path} exists; choose another name, or write it anew with --force")
    others = {entry.name for entry in path.iterdir()} - _written() if directory else set()
    if others:
        raise UserError(
            f"{path} has {min(others)} in it, which is no part of an export and would be lost; move it away, "
            "or choose another name"
        )


def _written() -> set[str]:
    """The names of all files that exports have."""
    return _PARTS | {file.name for file in _PAGE.iterdir()} | {*_SHARED, *RUNTIME}
