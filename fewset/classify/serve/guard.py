"""Which requests pass: an ASGI middleware in front of the application.

A page of another site can make the browser send requests to this server, directly or under a name that
points here (DNS rebinding). So the Host must be one of the server's own names, and a request from a page must
come from the server's own page. Where other machines can reach the server, requests also need a token.
"""

import re
import secrets
from collections.abc import Iterable
from ipaddress import ip_address
from socket import gethostname

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 2**28
"""Of one request with photos, which go to the disk."""
MOST_IN_MEMORY = 2**20
"""Of any other request."""
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob: data:; media-src 'self' blob:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]+)?")


class Guard:
    """Passes allowed requests on to an application, and adds headers to all responses."""

    def __init__(
        self,
        application: ASGIApp,
        *,
        host: str = "127.0.0.1",
        token: str | None = None,
        allowed_hosts: Iterable[str] = (),
    ) -> None:
        self.application, self.host, self.token = application, host, token
        self.allowed = frozenset(name.lower() for name in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        application, request = self.application, Request(scope)
        photos = request.headers.get("content-type", "").lower().startswith("multipart/form-data")
        most = MOST_BYTES if photos else MOST_IN_MEMORY
        try:
            check_host(request, self.host, self.allowed)
            check_origin(request, self.allowed)
            given = request.query_params.get("token", "") if request.method == "GET" else ""
            if self.token and _same(given, self.token):  # it should not stay in the address
                application = RedirectResponse("/", 303)
                application.set_cookie(cookie_name(request), self.token, httponly=True)
            elif self.token:
                check_token(request, self.token)
            _check_size(int(request.headers.get("content-length", "0")), most)
        except HTTPException as error:
            application = JSONResponse({"detail": error.detail}, error.status_code, error.headers)
        await application(scope, _bounded(receive, most), _with_headers(scope, send))


def check_host(request: Request, own: str, allowed: Iterable[str] = ()) -> None:
    """Reject a Host that is not this server's. Its port may differ: the port may be forwarded."""
    host, machine = request.headers.get("host", ""), gethostname().lower()
    name = _host_name(host)
    known = {"localhost", own.lower(), *map(_host_name, allowed)}
    if not is_loopback(own):
        known |= {machine, f"{machine}.local"}
    if name is None or not (name in known or _is_address(name, own)):
        raise _rejection(
            421,
            f"the Host {host[:100]!r} is not this server's; open it as http://localhost, or start it with "
            "--allowed-host and that name",
        )


def check_origin(request: Request, allowed: Iterable[str] = ()) -> None:
    """Reject requests from pages of other sites; a link on one may be followed.

    Behind a proxy the page is that of an allowed host, while the Host may be the server's own name.
    """
    headers = request.headers
    origin, host = headers.get("origin", "").lower(), headers.get("host", "").lower()
    own = {f"http://{host}", f"https://{host}", *(f"https://{name}" for name in allowed)}
    if "origin" in headers:
        if origin not in own:
            raise _rejection(403, f"a page of {origin[:100]!r} may not use this server")
    elif headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        followed = headers.get("sec-fetch-mode") == "navigate" and request.method in ("GET", "HEAD")
        if not followed:
            raise _rejection(403, "a page of another site may not use this server")


def check_token(request: Request, token: str) -> None:
    """Reject requests that have the token neither in a header nor in the cookie."""
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    given = key.strip() if kind.lower() == "bearer" else ""
    if not (_same(given, token) or _same(request.cookies.get(cookie_name(request), ""), token)):
        raise _rejection(
            401,
            "this server needs the token that `fewset serve` printed: open the address that it printed, or "
            "send the header Authorization: Bearer TOKEN",
        )


def _rejection(status: int, reason: str) -> HTTPException:
    """The rest of the body is not read, so the connection is closed."""
    return HTTPException(status, reason, {"connection": "close"})


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise _rejection(413, f"more than {most} bytes at once; send fewer photos at a time")


def _bounded(receive: Receive, most: int) -> Receive:
    """The body, counted while it comes: with chunked encoding its length is not announced."""
    received = 0

    async def receive_bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        _check_size(received, most)
        return message

    return receive_bounded


def _host_name(host: str) -> str | None:
    """The name in a Host header, lower case, without its port and brackets; None where it is malformed."""
    found = _HOST.fullmatch(host.lower())
    return found and (found[1] or found[2])


def _is_address(name: str, own: str) -> bool:
    """Whether this is an IP address, on loopback one of loopback: nobody can redirect these."""
    try:
        return ip_address(name).is_loopback or not is_loopback(own)
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether a server at this address can be reached from this machine only."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def cookie_name(request: Request) -> str:
    """The name of the cookie with the token, one for each port: all ports of a host share their cookies."""
    return f"fewset_token_{request.scope['server'][1]}"


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode(), token.encode())


def _with_headers(scope: Scope, send: Send) -> Send:
    kept = "no-cache" if scope["path"].startswith("/static/") else "no-store"

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update({**_HEADERS, "cache-control": kept})
        await send(message)

    return send_with_headers
