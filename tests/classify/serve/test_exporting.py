"""The downloads of the page that are for other programs."""

import io
import json
import zipfile
from pathlib import Path

import pytest

from fewset.classify.embedding import chosen_encoder
from fewset.classify.model import EncoderStamp
from fewset.classify.serve.embedding_queue import EmbeddingQueue
from fewset.classify.serve.workbench import Workbench
from tests.helpers.encoders import write_onnx
from tests.helpers.photos import CLASSES
from tests.helpers.web import client, teach


def packed(content: bytes) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(content))


def test_onnx_and_a_page_are_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    encoder = chosen_encoder(f"onnx:{write_onnx(tmp_path / 'net.onnx')}", "cpu")
    bench = Workbench(EncoderStamp(encoder.id, encoder.digest))
    with client(EmbeddingQueue(encoder), bench) as opened:
        assert opened.get("/api/downloads/onnx").status_code == 400
        teach(opened)
        answer = opened.get("/api/downloads/onnx")
        assert 'filename="my-onnx.zip"' in answer.headers["content-disposition"]
        with packed(answer.content) as files:
            assert {"encoder.onnx", "head.json", "joined.onnx"} <= set(files.namelist())
            assert json.loads(files.read("head.json"))["classes"] == sorted(CLASSES)
        assert set(opened.get("/api/state").json()["downloads"]) == {"classifier", "predictions", "onnx"}
        assert "npm install onnxruntime-web" in opened.get("/api/downloads/web").json()["detail"]
        place = tmp_path / "node_modules" / "onnxruntime-web" / "dist"
        place.mkdir(parents=True)
        for name in ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"):
            (place / name).write_text(name)
        assert "web" in opened.get("/api/state").json()["downloads"]
        with packed(opened.get("/api/downloads/web").content) as files:
            assert {"index.html", "head.json", "ort-wasm-simd-threaded.wasm"} <= set(files.namelist())
