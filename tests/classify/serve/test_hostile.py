"""Mutated uploads, thousands of them: a clear answer each time, no crash, and nothing written anywhere.

`make hostile` sends the 10,000 of the record in `results/serve/mutations.json`, and makes it.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fastapi.testclient import TestClient

from fewset.classify.serve.workbench import Workbench
from fewset.compute.machine import commit, peak_memory
from fewset.io.files import write_json
from tests.helpers.damage import altered, damaged, json_text
from tests.helpers.picture_files import picture_files, zip_file
from tests.helpers.web import STAMP, client, teach

COUNT = int(os.environ.get("FEWSET_MUTATIONS", "300"))
RECORD = os.environ.get("FEWSET_MUTATIONS_RECORD")
ROOT = Path(__file__).parents[3]
BOUNDARY = "fewset-boundary"
NAMES = ("a.jpg", "../../x.jpg", "/etc/passwd", "..\\..\\x.png", "<script>.png", "x" * 500, "")
PICTURES = picture_files()
ARCHIVE = zip_file({f"grass/{kind}.bin": content for kind, content in PICTURES.items()})
BODIES = {
    "/api/classes": {"name": "new"},
    "/api/classes/rename": {"name": "grass", "new_name": "lawn"},
    "/api/photos/move": {"photos": [0, 1], "label": "brick"},
    "/api/photos/remove": {"photos": [2]},
    "/api/reject": {"share": 0.05},
    "/api/tried/teach": {"photos": [0], "label": "brick"},
}
Send = Callable[[TestClient, Random], Any]


def form(label: str, name: str, content: bytes) -> bytes:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="'
    return (
        f'{head}label"\r\n\r\n{label}\r\n{head}photos"; filename="{name}"\r\nContent-Type: image/png\r\n\r\n'
    ).encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()  # fmt: skip


def mutated_photo(opened: TestClient, generator: Random) -> Any:
    content = damaged(generator.choice(list(PICTURES.values())), generator)
    address = generator.choice(("/api/classify", "/api/photos"))
    given = [("photos", (generator.choice(NAMES), content))]
    return opened.post(address, data={"label": "grass"}, files=given)


def mutated_archive(opened: TestClient, generator: Random) -> Any:
    given = [("photos", ("photos.zip", damaged(ARCHIVE, generator)))]
    return opened.post("/api/classify", files=given)


def mutated_form(opened: TestClient, generator: Random) -> Any:
    body = form("grass", "a.png", generator.choice(list(PICTURES.values())))
    end = len(body) if generator.random() < 0.5 else 200  # the parts' own heads, or anywhere
    body = damaged(body[:end], generator) + body[end:]
    headers = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
    return opened.post(generator.choice(("/api/classify", "/api/photos")), content=body, headers=headers)


def mutated_json(opened: TestClient, generator: Random) -> Any:
    """Another value in it, or other bytes."""
    address, body = generator.choice(list(BODIES.items()))
    if generator.random() < 0.5:
        content = json_text(altered(body, generator)).encode(errors="surrogatepass")
    else:
        content = damaged(json_text(body).encode(), generator)
    return opened.post(address, content=content, headers={"content-type": "application/json"})


KINDS: dict[str, tuple[Send, float]] = {
    "photo": (mutated_photo, 0.55),
    "archive": (mutated_archive, 0.05),
    "form": (mutated_form, 0.2),
    "json": (mutated_json, 0.2),
}


def check(answer: Any) -> None:
    """A success or a 4xx with a reason, both as JSON, and nothing of the server's own inside in it."""
    assert answer.status_code in (200, 204, 400, 404, 413, 422), (answer.status_code, answer.text)
    if answer.status_code == 204:
        return
    assert answer.headers["content-type"] == "application/json"
    said = answer.json()
    for each in said.get("answers", []):  # of photos: what it is, or why that cannot be said
        assert bool(each["problem"]) != bool(each["label"])
        assert not {"/", "\\"} & set(each["name"])
    if answer.status_code >= 400:
        assert said["detail"]
        assert "Traceback" not in answer.text
        assert str(ROOT) not in answer.text


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
def test_mutated_uploads_are_answered_and_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "spooled").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spooled"))
    generator = Random(0)
    shares = [share for _, share in KINDS.values()]
    counted: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    bench = Workbench(STAMP)
    with client(bench=bench) as opened:
        teach(opened, 2)
        before = bench.moment().album
        memory = peak_memory()
        for _ in range(COUNT):
            (kind,) = generator.choices(list(KINDS), shares)
            answer = KINDS[kind][0](opened, generator)
            check(answer)
            counted[kind][str(answer.status_code)] += 1
            while bench.moment().album is not before:
                bench.undo()
        grown = peak_memory() - memory
        assert opened.get("/api/downloads/classifier").status_code == 200
    assert sum(sum(each.values()) for each in counted.values()) == COUNT
    assert sorted((tmp_path / "here").rglob("*")) == []
    assert sorted((tmp_path / "spooled").rglob("*")) == []
    assert grown < 512 * 2**20
    if RECORD:
        statuses = {kind: dict(sorted(each.items())) for kind, each in counted.items()}
        write_json(
            ROOT / RECORD,
            {"uploads": COUNT, "seed": 0, "answers": statuses, "server_errors": 0, "files_left": 0,
             "memory_grown_mib": round(grown / 2**20, 1), "commit": commit(), "command": "make hostile"},
        )  # fmt: skip
