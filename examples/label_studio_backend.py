"""A machine-learning backend for Label Studio: it predicts tasks with a fewset classifier.

    export LABEL_STUDIO_URL=http://localhost:8080 LABEL_STUDIO_API_KEY=...
    python label_studio_backend.py my.fewset        # needs: pip install 'fewset[web]'

Then add http://localhost:9090 as a model in the settings of a project with an Image and Choices.
"""

import json
import os
import sys
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from socket import SHUT_RDWR
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit
from urllib.request import urlopen
from xml.etree import ElementTree

import uvicorn
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field

from fewset import FewShotClassifier

STUDIO = os.environ.get("LABEL_STUDIO_URL", "http://localhost:8080").rstrip("/") + "/"
KEY = os.environ.get("LABEL_STUDIO_API_KEY", "")
SECONDS = 20.0  # for one answer of Label Studio, from the connection to the last byte
LARGEST_PHOTO, LARGEST_BODY, LARGEST_CONFIG = 2**26, 2**22, 200_000


class Setup(BaseModel):
    label_config: str = Field(default="", alias="schema", max_length=LARGEST_CONFIG)


class Predict(BaseModel):
    tasks: list[dict[str, Any]]
    label_config: str = Field(max_length=LARGEST_CONFIG)


def photo(place: Any) -> bytes:
    """The photo at the address that a task gives: only from Label Studio, and only what is under /data/."""
    if str(place).startswith("data:"):
        return bytes(urlopen(place).read())
    asked, studio = urlsplit(urljoin(STUDIO, str(place))), urlsplit(STUDIO)
    path = unquote(asked.path)
    inside = path.startswith(f"{studio.path}data/") and ".." not in path.split("/")
    if asked[:2] != studio[:2] or not inside:
        raise ValueError(f"photos are read from {STUDIO}data/ only")
    headers = {"Authorization": f"Token {KEY}"} if KEY else {}
    if KEY.count(".") == 2:  # a personal access token, which is exchanged for one that is valid for minutes
        sent = json.dumps({"refresh": KEY}), {"Content-Type": "application/json"}
        access = json.loads(answer("POST", f"{studio.path}api/token/refresh/", *sent))["access"]
        headers = {"Authorization": f"Bearer {access}"}
    return answer("GET", f"{quote(path)}?{quote(asked.query, safe='%=&/:+,')}".rstrip("?"), None, headers)


def answer(method: str, path: str, body: str | None, headers: dict[str, str]) -> bytes:
    """What Label Studio answers. Redirects are not followed: they could lead to another host."""
    studio = urlsplit(STUDIO)
    kind = HTTPSConnection if studio.scheme == "https" else HTTPConnection
    connection = kind(studio.hostname or "", studio.port, timeout=SECONDS)
    connection.connect()
    # The timeout of a connection holds for each read alone; this one for all of them together.
    end = Timer(SECONDS, connection.sock.shutdown, [SHUT_RDWR])
    end.start()
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        data = response.read(LARGEST_PHOTO)
    finally:
        end.cancel()
        connection.close()
    if response.status != 200 or response.length:
        raise OSError(
            f"Label Studio answered {response.status}, {len(data)} bytes; is LABEL_STUDIO_API_KEY set?"
        )
    return data


def question(config: str) -> tuple[str, str, str]:
    """The names of the first Choices for an Image, of the Image, and of the photo in a task's data."""
    tags = list(ElementTree.fromstring(config).iter())
    images = {tag.get("name"): tag.get("value", "") for tag in tags if tag.tag == "Image"}
    found = [tag.attrib for tag in tags if tag.tag == "Choices" and tag.get("toName") in images]
    return found[0]["name"], found[0]["toName"], images[found[0]["toName"]].removeprefix("$")


def application(file: Path) -> FastAPI:
    """The routes that Label Studio asks for."""
    classifier, app = FewShotClassifier.load(file), FastAPI()
    version = f"fewset-{sha256(file.read_bytes()).hexdigest()[:12]}"

    @app.middleware("http")
    async def limited(request: Request, proceed: Any) -> Response:
        too_large = int(request.headers.get("content-length", 0)) > LARGEST_BODY
        chunked = "transfer-encoding" in request.headers
        return Response(status_code=413) if too_large or chunked else await proceed(request)

    @app.exception_handler(ElementTree.ParseError)
    @app.exception_handler(LookupError)
    def wrong_config(_: Request, error: Exception) -> Response:
        return Response(f"the labelling configuration has no Choices for an Image: {error}", 400)

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "UP", "model_class": "FewShotClassifier"}

    @app.post("/setup")
    def setup(asked: Setup) -> dict[str, str]:
        if asked.label_config:
            question(asked.label_config)
        return {"model_version": version}

    @app.post("/predict")
    def predict(asked: Predict) -> dict[str, Any]:
        choices, image, key = question(asked.label_config)
        with TemporaryDirectory() as folder:
            return {"results": [result(task, choices, image, key, folder) for task in asked.tasks]}

    def result(task: dict[str, Any], choices: str, image: str, key: str, folder: str) -> dict[str, Any]:
        """The prediction for one task; what goes wrong with its photo is the problem of this task alone."""
        try:
            path = Path(folder, "photo.jpg")
            path.write_bytes(photo(task["data"][key]))
            (found,) = classifier.answers([path], top=1)
            if found.problem:
                raise ValueError(found.problem)
        except (OSError, ValueError, TypeError, LookupError, HTTPException) as error:
            problem = f"{type(error).__name__}: {error}"
            return {"result": [], "score": 0.0, "model_version": version, "problem": problem}
        value = {"choices": [str(found.label)]}
        chosen = {"from_name": choices, "to_name": image, "type": "choices", "value": value}
        score = found.probability
        return {"result": [chosen | {"score": score}], "score": score, "model_version": version}

    return app


if __name__ == "__main__":
    uvicorn.run(application(Path(sys.argv[1])), port=9090)
