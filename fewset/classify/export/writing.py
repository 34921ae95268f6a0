"""The files and folders of `fewset export`, which appear whole or not at all."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fewset.classify.card import hub_front_matter, model_card
from fewset.classify.embedding import encoder_of, name_in_file
from fewset.classify.export.classifiers import ENCODER_FILE, head_description, joined_graph
from fewset.classify.export.encoders import encoder_graph
from fewset.classify.model import EncoderStamp, Learned
from fewset.classify.saving import is_classifier, load_classifier, save_classifier
from fewset.core.errors import UserError
from fewset.core.names import one_line
from fewset.encoders import Encoder
from fewset.encoders.onnx_rows import serialised
from fewset.io.files import check_output, replacing_directory, write_bytes, write_json

if TYPE_CHECKING:
    from fewset.models.task_model import TaskModel

HEAD_FILE, CLASSIFIER_FILE = "head.json", "classifier.fewset"
JOINED_FILE = "joined.onnx"
TITLE = "What is in this photo?"
"""Of the page, where no other is given."""
_PAGE = Path(__file__).parent / "page"
_SHARED = ("camera.js", "dom.js", "gathering.js", "icon.svg", "page.css")  # with the page of `fewset serve`
_PARTS = {ENCODER_FILE, HEAD_FILE, JOINED_FILE, "head.onnx", CLASSIFIER_FILE, "config.json", "README.md"}
_DEVICE = "cpu"  # the same files on every machine
RUNTIME = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
_PLACE = Path("node_modules", "onnxruntime-web", "dist")


@dataclass(frozen=True, eq=False)
class ClassifierExport:
    """A classifier with the encoder that made its rows."""

    learned: Learned
    encoder: Encoder
    share: float | None
    """The allowed false-rejection rate of "none of these"."""

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

    def write_page(self, folder: Path, runtime: list[Path], title: str = TITLE) -> None:
        """The folder with a page that computes in the browser, by the files of `runtime`."""
        with replacing_directory(folder) as temporary:
            self._write_parts(temporary)
            shared = (_PAGE.parents[1] / "serve" / "page" / name for name in _SHARED)
            for file in (*_PAGE.iterdir(), *shared, *runtime):
                shutil.copyfile(file, temporary / file.name)
            page = temporary / "index.html"
            text = page.read_text(encoding="utf-8").replace(TITLE, escape(one_line(title)))
            page.write_text(text, encoding="utf-8")

    def write_hub(self, folder: Path) -> None:
        """A folder to publish on the Hugging Face Hub: the classifier without its photos, and its card."""
        stamp = EncoderStamp(name_in_file(self.encoder.id, folder), self.encoder.digest)
        learned = replace(self.learned, support=self.learned.support.anonymous(), encoder=stamp)
        with replacing_directory(folder) as temporary:
            save_classifier(learned, self.share, temporary / CLASSIFIER_FILE)
            config = {"library_name": "fewset", "classes": learned.support.classes.tolist()}
            write_json(temporary / "config.json", config)
            card = hub_front_matter() + model_card(learned, folder.name)
            (temporary / "README.md").write_text(card, encoding="utf-8")

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

    model: "TaskModel"

    def write_file(self, path: Path) -> None:
        """One ONNX file: support and queries in, logits out."""
        from fewset.classify.export.models import TaskGraphs

        write_bytes(path, serialised(TaskGraphs(self.model).joined(), "the model"))

    def write_folder(self, folder: Path, joined: bool = False) -> None:
        """`encoder.onnx` and `head.onnx`; on request the one file beside them."""
        from fewset.classify.export.models import TaskGraphs

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
    """Check, before the work, that nothing is lost; with `force` an earlier export may be replaced."""
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
        raise UserError(f"{path} exists; choose another name, or replace it with --force")
    written = _PARTS | {file.name for file in _PAGE.iterdir()} | {*_SHARED, *RUNTIME}
    others = {entry.name for entry in path.iterdir()} - written if directory else set()
    if others:
        raise UserError(
            f"{path} has {min(others)} in it, which is not from an export and would be lost; move it away, "
            "or choose another name"
        )


def is_model(source: Path) -> bool:
    """Whether it is a run directory, a weights file or a released model; any other file is a classifier."""
    from fewset.experiments.weights import released_models

    weights = source.suffix == ".safetensors" and not is_classifier(source)
    return source.is_dir() or weights or str(source) in released_models()


def open_classifier(source: Path, encoder: str | None = None) -> ClassifierExport:
    """A classifier, ready to be written; `encoder`: where that is, if not under the name in the file."""
    learned, share = load_classifier(source)
    return ClassifierExport(learned, encoder_of(learned, encoder, _DEVICE), share)


def find_runtime(directory: Path | None = None) -> list[Path]:
    """The files in a directory, or where npm puts them: below this directory or one above it."""
    here = Path.cwd()
    places = [directory] if directory else [above / _PLACE for above in (here, *here.parents)]
    for place in places:
        found = [place / name for name in RUNTIME]
        if all(file.is_file() for file in found):
            return found
    where = str(directory) if directory else f"{_PLACE} of {here} or above"
    raise UserError(
        f"there is no {RUNTIME[0]} with {RUNTIME[1]} in {where}; get them with "
        "`npm install onnxruntime-web`, or name their directory: --runtime DIR"
    )
