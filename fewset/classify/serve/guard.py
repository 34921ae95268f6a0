"""Which requests may pass: an ASGI middleware in front of the application.

A page of another site can make the browser send requests to this server, directly or under a name that
points here (DNS rebinding). So the Host must be one of the server's own names, and a request from a page must
come from the server's own page. Where other machines can reach the server, requests need a token, too.
"""

import asyncio
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from socket import gethostname
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


@dataclass(frozen=True)
class Limits:
    """How much a client may send, and how slowly."""

    form: int = 2**28
    """Bytes of a form; its files go to the disk."""
    body: int = 2**20
    """Bytes of any other body, which is kept in memory."""
    patience: float = 20.0
    """Seconds that a body may take, in addition to those at the slowest rate."""
    rate: float = 20_000.0
    """Bytes in a second, the slowest."""


class Guard:
    """Passes allowed requests on to an application, and adds headers to all responses."""

    def __init__(
        self,
        application: ASGIApp,
        *,
        host: str = "127.0.0.1",
        token: str | None = None,
        limits: Limits | None = None,
        allowed_hosts: Iterable[str] = (),
    ) -> None:
        self.application, self.host, self.token, self.limits = application, host, token, limits or Limits()
        self.allowed = frozenset(name.lower() for name in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        application, send = self.application, _with_headers(scope, send)
        try:
            headers = Headers(scope=scope)
            check_host(headers, self.host, self.allowed)
            check_origin(headers, scope["method"], self.allowed)
            if self.token and token_in_address(scope, self.token):  # it should not stay there
                application = RedirectResponse("/", 303)
                application.set_cookie(cookie_name(scope), self.token, httponly=True)
            elif self.token:
                check_token(headers, scope, self.token)
            receive = bounded(receive, headers, self.limits)
        except HTTPException as error:
            application = JSONResponse({"detail": error.detail}, error.status_code, error.headers)
        await application(scope, receive, send)


def check_host(headers: Headers, own: str, allowed: Iterable[str] = ()) -> None:
    """Reject a Host that is not this server's. Its port may be another: it may be forwarded."""
    host = headers.get("host", "")
    name = _host_name(host)
    known = own_names(own) | {_host_name(each) for each in allowed}
    if name is None or not (name in known or _is_address(name, own)):
        raise _rejection(
            421,
            f"the Host {host[:100]!r} is not this server's; open it as http://localhost, or start it with "
            "--allowed-host and that name",
        )


def check_origin(headers: Headers, method: str, allowed: Iterable[str] = ()) -> None:
    """Reject what a page of another site sends; a link on one may be followed.

    Behind a proxy the page is that of an allowed host, while the Host may be the server's own name.
    """
    origin, host = headers.get("origin", "").lower(), headers.get("host", "").lower()
    own = {f"http://{host}", f"https://{host}", *(f"https://{name}" for name in allowed)}
    if "origin" in headers:
        if origin not in own:
            raise _rejection(403, f"a page of {origin[:100]!r} may not use this server")
    elif headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        followed = headers.get("sec-fetch-mode") == "navigate" and method in ("GET", "HEAD")
        if not followed:
            raise _rejection(403, "a page of another site may not use this server")


def token_in_address(scope: Scope, token: str) -> bool:
    """Whether this is the address that the server printed at its start."""
    given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[-1]
    return scope["method"] == "GET" and _same(given, token)


def check_token(headers: Headers, scope: Scope, token: str) -> None:
    """Reject requests that have the token neither in a header nor in the cookie."""
    kind, _, key = headers.get("authorization", "").partition(" ")
    given = key.strip() if kind.lower() == "bearer" else ""
    kept = cookie_parser(headers.get("cookie", "")).get(cookie_name(scope), "")
    if not (_same(given, token) or _same(kept, token)):
        raise _rejection(
            401,
            "this server needs the token that `fewset serve` printed: open the address that it printed, or "
            "send the header Authorization: Bearer TOKEN",
        )


def bounded(receive: Receive, headers: Headers, limits: Limits) -> Receive:
    """The body of a request, as long as it is neither too large nor too slow."""
    form = headers.get("content-type", "").lower().startswith("multipart/form-data")
    most = limits.form if form else limits.body
    too_large = _rejection(413, f"more than {most} bytes at once; send fewer photos at a time")
    if int(headers.get("content-length", "0")) > most:
        raise too_large
    started, received, more = asyncio.get_running_loop().time(), 0, True

    async def receive_next() -> Message:
        nonlocal received, more
        if not more:  # what comes now is that the client has gone
            return await receive()
        try:
            async with asyncio.timeout_at(started + limits.patience + received / limits.rate):
                message = await receive()
        except TimeoutError:
            raise _rejection(408, "the body of the request came too slowly") from None
        received, more = received + len(message.get("body", b"")), message.get("more_body", False)
        if received > most:
            raise too_large
        return message

    return receive_next


def _rejection(status: int, reason: str) -> HTTPException:
    """The rest of the body is not read, so the connection cannot be used again."""
    return HTTPException(status, reason, {"connection": "close"})


def _host_name(host: str) -> str | None:
    """The name in a Host header, lower case, without its port and brackets; None where it is malformed."""
    found = _HOST.fullmatch(host.lower())
    return found and (found[1] or found[2])


def _is_address(name: str, own: str) -> bool:
    """Whether this is an IP address, which nobody can let point here; on loopback, one of loopback."""
    try:
        return ip_address(name).is_loopback or not is_loopback(own)
    except ValueError:
        return False


def own_names(own: str) -> set[str | None]:
    """What a server that listens there may be called."""
    machine = gethostname().lower()
    return {"localhost", own.lower(), *(() if is_loopback(own) else (machine, f"{machine}.local"))}


def is_loopback(host: str) -> bool:
    """Whether a server at this address can be reached from this machine only."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def cookie_name(scope: Scope) -> str:
    """The name of the cookie with the token, one for each port: all ports of a host share their cookies."""
    _, port = scope.get("server") or ("", None)
    return f"fewset_token_{port}"


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode(), token.encode())


def _with_headers(scope: Scope, send: Send) -> Send:
    kept = "no-cache" if scope["path"].startswith("/static/") else "no-store"

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update({**_HEADERS, "cache-control": kept})
        await send(message)

    return send_with_headers
