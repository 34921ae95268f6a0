"""`fewset serve`: the page and the interface as one application, and a server."""

import errno
import json
import mimetypes
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from uvicorn.protocols.http.h11_impl import H11Protocol

from fewset import __version__
from fewset.classify.serve.embedding_queue import EmbeddingQueue, QueueFull
from fewset.classify.serve.guard import Guard, is_loopback
from fewset.classify.serve.interface import Interface
from fewset.classify.serve.project import Project, work_file
from fewset.classify.serve.workbench import Workbench
from fewset.core.errors import UserError
from fewset.core.names import shortened

PAGE = Path(__file__).parent / "page"
mimetypes.add_type("text/javascript", ".js")  # on Windows another program may have set another type
_MOST_CONNECTIONS = 500
_IDLE_SECONDS = 15.0  # of a connection before its first request


def application(
    bench: Workbench,
    queue: EmbeddingQueue,
    project: Project | None = None,
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    allowed_hosts: Iterable[str] = (),
) -> Guard:
    """Everything that the server answers, behind its guard."""
    app = FastAPI(
        title="fewset",
        version=__version__,
        description="Teach a classifier a few photos a class, and ask it about new ones.",
        docs_url=None,  # FastAPI's own pages load scripts from other hosts
        redoc_url=None,
    )
    app.include_router(Interface(bench, queue, project or Project(bench, work_file())).router)
    app.mount("/static", StaticFiles(directory=PAGE))

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    @app.exception_handler(UserError)
    async def user_error(_: Request, error: UserError) -> Response:
        return JSONResponse({"detail": str(error)}, 400)

    @app.exception_handler(QueueFull)
    async def queue_full(_: Request, error: QueueFull) -> Response:
        return JSONResponse({"detail": f"{error}; come again in a few seconds"}, 503, {"retry-after": "5"})

    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _not_as_described)
    return Guard(app, host=host, token=token, allowed_hosts=allowed_hosts)


async def _http_error(request: Request, error: Exception) -> Response:
    """FastAPI says only that a body could not be parsed, also where it found no room for it on the disk."""
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, OSError):
        reason = error.__cause__.strerror or str(error.__cause__)
        detail = f"the upload cannot be kept in {gettempdir()}: {reason}; make room there, or set TMPDIR"
        return JSONResponse({"detail": detail}, 507, {"connection": "close"})
    return await http_exception_handler(request, error)


async def _not_as_described(_: Request, error: Exception) -> Response:
    """The problems and their places, without the input, which may be no JSON and no text."""
    problems = [{key: problem[key] for key in ("type", "loc", "msg")} for problem in error.errors()]  # type: ignore[attr-defined]
    return Response(json.dumps({"detail": problems}, default=str), 422, media_type="application/json")


def run(
    bench: Workbench,
    queue: EmbeddingQueue,
    *,
    host: str,
    port: int,
    ready: Callable[[str], None],
    allowed_hosts: Iterable[str] = (),
    saved: Path,
) -> None:
    """Serve until a signal, and save the work to the file `saved` as it changes.

    `ready` is called with the address, which has a token where other machines can reach it.
    """
    listening = _listen(host, port)
    allowed = list(allowed_hosts)
    token = None if is_loopback(host) and not allowed else secrets.token_urlsafe(24)
    project = Project(bench, saved)
    server = http_server(application(bench, queue, project, host=host, token=token, allowed_hosts=allowed))
    # uvicorn sends the signal that stopped it again; the default action would end the process at once.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: setattr(server, "should_exit", True))
    ready(_address(host, listening.getsockname()[1], token))
    try:
        with project:
            server.run(sockets=[listening])
    finally:
        queue.close()


class _Protocol(H11Protocol):
    """uvicorn closes idle connections only after their first response; this, also those without a request."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        close = self.timeout_keep_alive_handler
        self.timeout_keep_alive_task = self.loop.call_later(_IDLE_SECONDS, close)


def http_server(app: Guard) -> uvicorn.Server:
    """uvicorn, which logs errors only, and does not trust headers about the client."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            limit_concurrency=_MOST_CONNECTIONS,
            backlog=32,  # where the process may open no more files, asyncio logs each of these
            timeout_graceful_shutdown=5,
            log_level="error",
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
