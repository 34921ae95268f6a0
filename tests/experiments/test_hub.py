"""Models on the Hub, from a local server that answers as the Hub does."""

import json
from collections.abc import Iterator
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import huggingface_hub
import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard

import fewset
from fewset.core.errors import UserError
from fewset.experiments.weights import find_model, run_of
from fewset.io.hub import download
from tests.helpers.classifiers import fitted, new_photos
from tests.helpers.command_line import succeed
from tests.helpers.encoders import write_onnx

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    folder: Path
    """The content of the one repository, ann/feat."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        files = {file.name: file for file in self.folder.iterdir()}
        name = path.rpartition("/")[2]
        if path in ("/api/models/ann/feat/revision/main", f"/api/models/ann/feat/revision/{COMMIT}"):
            listed = [{"rfilename": name} for name in files]
            self.answer(json.dumps({"id": "ann/feat", "sha": COMMIT, "siblings": listed}).encode())
        elif path == f"/api/models/ann/feat/tree/{COMMIT}":
            tree = [
                {"type": "file", "path": name, "size": file.stat().st_size, "oid": "0"}
                for name, file in files.items()
            ]
            self.answer(json.dumps(tree).encode())
        elif path.startswith("/ann/feat/resolve/") and name in files:
            self.answer(files[name].read_bytes())
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def answer(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("ETag", f'"{sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder whose files are those of hub:ann/feat."""
    folder = tmp_path / "published"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (Hub,), {"folder": folder})) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
        monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        yield folder
        server.shutdown()


def test_a_run_is_loaded_from_the_hub(hub: Path, tmp_path: Path) -> None:
    released = find_model("cub-conv4-feat-1shot")
    for file in released.iterdir():
        (hub / file.name).write_bytes(file.read_bytes())
    (hub / "large.bin").write_bytes(b"never fetched")
    for name in ("hub:ann/feat", "hub:ann/feat@main", f"hub:ann/feat@{COMMIT}"):
        loaded, expected = fewset.load(name).state_dict(), fewset.load(released).state_dict()
        assert all(torch.equal(loaded[key], value) for key, value in expected.items())
    assert not list((tmp_path / "cache").rglob("large.bin"))
    run = run_of(Path("hub:ann/feat"), tmp_path / "runs")
    assert run == tmp_path / "runs" / "feat"
    assert (run / "recipe.toml").read_bytes() == (released / "recipe.toml").read_bytes()


def test_a_classifier_is_published_without_its_photos_and_loaded(hub: Path, tmp_path: Path) -> None:
    file = tmp_path / "my.fewset"
    classifier = fitted(tmp_path, f"onnx:{write_onnx(tmp_path / 'net.onnx')}")
    classifier.save(file)
    succeed("export", file, "--hub", tmp_path / "pets")
    for part in (tmp_path / "pets").iterdir():
        (hub / part.name).write_bytes(part.read_bytes())
    content = b"".join(part.read_bytes() for part in hub.iterdir())
    support = classifier.learned_.support
    assert all(picture and picture not in content for picture in support.thumbnails)
    assert not [name for name in support.names if Path(name).name.encode() in content]
    assert ModelCard.load(hub / "README.md").data.pipeline_tag == "image-classification"

    encoder = f"onnx:{tmp_path / 'net.onnx'}"
    loaded = fewset.FewShotClassifier.load("hub:ann/feat", encoder=encoder)
    photos = new_photos()
    np.testing.assert_array_equal(loaded.predict_proba(photos), classifier.predict_proba(photos))
    assert loaded.predict(photos).tolist() == classifier.predict(photos).tolist()
    photos[0].save(tmp_path / "new.png")
    words = ("predict", "hub:ann/feat", tmp_path / "new.png", "--encoder", encoder)
    assert str(classifier.predict(photos[:1])[0]) in succeed(*words)


def test_a_model_with_two_classifiers_is_rejected(hub: Path) -> None:
    for name in ("one.fewset", "two.fewset"):
        (hub / name).write_bytes(b"")
    with pytest.raises(UserError, match="has 2 files"):
        fewset.FewShotClassifier.load("hub:ann/feat")


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("name", ["hub:ann/other", "hub:", "hub:ann/../feat", "hub:ann/feat@absent"])
def test_what_is_not_there_is_one_line(name: str) -> None:
    with pytest.raises(UserError, match="cannot be downloaded") as caught:
        download(name, ["*"])
    assert "\n" not in str(caught.value)
