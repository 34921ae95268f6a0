"""`fewset serve`: the page and the interface as one application, and a server for it."""

import errno
import json
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from fewset import __version__
from fewset.classify.web.embedding_queue import EmbeddingQueue, QueueFull
from fewset.classify.web.guard import Guard, Limits, is_loopback
from fewset.classify.web.interface import Interface
from fewset.classify.web.label_studio import LabelStudio
from fewset.classify.web.workbench import Workbench
from fewset.runtime.errors import UserError
from fewset.runtime.names import shortened

PAGE = Path(__file__).parent / "page"
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS_SECONDS = 15.0
"""Within which a client that is connected must have asked for something."""


def application(
    bench: Workbench,
    queue: EmbeddingQueue,
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    limits: Limits | None = None,
    label_studio: str | None = None,
) -> Guard:
    """Everything that the server answers, behind its guard."""
    app = FastAPI(
        title="fewset",
        version=__version__,
        description="Teach a classifier a few photos a class, and ask it about new ones.",
        docs_url=None,  # FastAPI's own pages load scripts from other hosts
        redoc_url=None,
    )
    interface = Interface(bench, queue)
    app.include_router(interface.router)
    app.include_router(LabelStudio(interface, label_studio).router)
    _add_page(app)
    app.add_exception_handler(UserError, _user_error)
    app.add_exception_handler(QueueFull, _queue_full)
    app.add_exception_handler(RequestValidationError, _not_as_described)
    return Guard(app, host=host, token=token, limits=limits or Limits())


def _add_page(app: FastAPI) -> None:
    """The files of the page, each by its own name: what is asked for never becomes a path."""
    for file in sorted(PAGE.iterdir()):
        if file.suffix in _KINDS:
            _add_file(app, f"/static/{file.name}", file, _KINDS[file.suffix])
    _add_file(app, "/", PAGE / "index.html", "text/html")
    _add_file(app, "/docs", PAGE / "docs.html", "text/html")


def _add_file(app: FastAPI, address: str, file: Path, kind: str) -> None:
    async def send() -> FileResponse:
        return FileResponse(file, media_type=kind)

    app.add_api_route(address, send, methods=["GET"], include_in_schema=False, response_class=FileResponse)


async def _user_error(_: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, 400)


async def _queue_full(_: Request, error: Exception) -> Response:
    return JSONResponse({"detail": f"{error}; come again in a few seconds"}, 503, {"retry-after": "5"})


async def _not_as_described(_: Request, error: Exception) -> Response:
    """What is wrong and where, without what was sent: that may be no JSON, or no text at all."""
    problems = [{key: problem[key] for key in ("type", "loc", "msg")} for problem in error.errors()]  # type: ignore[attr-defined]
    return Response(json.dumps({"detail": problems}, default=str), 422, media_type="application/json")


class _Protocol(H11Protocol):
    """HTTP as uvicorn speaks it; who connects and does not ask, or asks without end, is sent away."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch(object())

    def _watch(self, before: object) -> None:
        """Look again every few seconds: between two looks a new request must have begun, or go on."""
        if self.transport.is_closing():
            return
        silent = self.conn.their_state is h11.IDLE
        if silent and before is self.cycle:
            self.transport.close()
            return
        self.loop.call_later(HEADERS_SECONDS, self._watch, self.cycle if silent else object())


def run(
    bench: Workbench,
    queue: EmbeddingQueue,
    *,
    host: str,
    port: int,
    ready: Callable[[str], None],
    label_studio: str | None = None,
) -> None:
    """Serve until Ctrl-C. `ready` is told the address, with a token where others can reach it."""
    listening = _listen(host, port)
    token = None if is_loopback(host) else secrets.token_urlsafe(24)
    server = http_server(application(bench, queue, host=host, token=token, label_studio=label_studio))
    ready(_address(host, listening.getsockname()[1], token))
    try:
        server.run(sockets=[listening])
    finally:
        queue.close()


def http_server(app: Guard) -> uvicorn.Server:
    """uvicorn, which says nothing but warnings, and believes no header about who is asking."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
        )
    )


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, ValueError) as error:  # ValueError: what cannot be the name of a host
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise UserError(f"port {port} is taken on {host}; give another: --port {port + 1}") from None
        raise UserError(f"cannot listen on {shortened(host)}, port {port}: {error}") from None


def _address(host: str, port: int, token: str | None) -> str:
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    shown = f"[{shown}]" if ":" in shown else shown
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")
