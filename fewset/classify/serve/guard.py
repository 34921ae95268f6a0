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

COOKIE = "fewset_token"
"""With the port behind it: cookies are shared by all servers of a host, whatever their port."""
MEBIBYTE = 2**20
_CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "media-src 'self' blob:",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "content-security-policy": _CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_ONCE = ("host", "origin", "cookie", "authorization", "content-length", "content-type")
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]+)?")
_LAST = {"connection": "close"}  # the rest of the body is not read, so the connection cannot be used again


@dataclass(frozen=True)
class Limits:
    """How much a client may send, and how slowly."""

    form: int = 256 * MEBIBYTE
    """Bytes of a form; its files go to the disk."""
    body: int = MEBIBYTE
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
        send = _with_headers(scope, send)
        try:
            headers = Headers(scope=scope)
            check_unambiguous(headers)
            check_host(headers, self.host, self.allowed)
            check_origin(headers, scope["method"], self.allowed)
            if check_token(headers, scope, self.token):
                page = RedirectResponse("/", 303)
                page.set_cookie(cookie_name(scope), self.token or "", httponly=True)
                await page(scope, receive, send)
                return
            receive = limited(receive, headers, self.limits)
        except HTTPException as refused:
            answer = JSONResponse({"detail": refused.detail}, refused.status_code, refused.headers)
            await answer(scope, receive, send)
            return
        await self.application(scope, receive, send)


def check_unambiguous(headers: Headers) -> None:
    """Reject headers that two programs on the way could read in two ways."""
    for name in _ONCE:
        if len(headers.getlist(name)) > 1:
            raise _refusal(400, f"the header {name} came several times, expected once")
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers and "content-length" in headers:
        raise _refusal(400, "got Content-Length and Transfer-Encoding, expected one of them")
    if not (length.isascii() and length.isdigit()):
        raise _refusal(400, f"the Content-Length is {length[:100]!r}, expected a number of bytes")


def check_host(headers: Headers, own: str, allowed: Iterable[str] = ()) -> None:
    """Reject a Host that is not this server's. Its port may be another: it may be forwarded."""
    host = headers.get("host", "")
    name = _host_name(host)
    if name is None or not (
        name in own_names(own) or name in {_host_name(each) for each in allowed} or _is_address(name, own)
    ):
        raise _refusal(
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
            raise _refusal(403, f"a page of {origin[:100]!r} may not use this server")
    elif headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        followed = headers.get("sec-fetch-mode") == "navigate" and method in ("GET", "HEAD")
        if not followed:
            raise _refusal(403, "a page of another site may not use this server")


def check_token(headers: Headers, scope: Scope, token: str | None) -> bool:
    """Reject requests without the token. Whether it came in the address, where it should not stay."""
    if token is None:
        return False
    asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[-1]
    if scope["method"] == "GET" and _same(asked, token):
        return True
    kind, _, key = headers.get("authorization", "").partition(" ")
    given = key.strip() if kind.lower() == "bearer" else ""
    kept = cookie_parser(headers.get("cookie", "")).get(cookie_name(scope), "")
    if not (_same(given, token) or _same(kept, token)):
        raise _refusal(
            401,
            "this server needs the token that `fewset serve` printed: open the address that it printed, or "
            "send the header Authorization: Bearer TOKEN",
        )
    return False


def limited(receive: Receive, headers: Headers, limits: Limits) -> Receive:
    """What a client sends, as long as it is neither too much nor too slow."""
    form = headers.get("content-type", "").lower().startswith("multipart/form-data")
    most = limits.form if form else limits.body
    received, started, whole = 0, 0.0, False

    def check(size: int) -> None:
        if size > most:
            raise _refusal(413, f"more than {most} bytes at once; send fewer photos at a time")

    async def receive_next() -> Message:
        nonlocal received, started, whole
        if whole:  # what comes now is that the client has gone
            return await receive()
        now = asyncio.get_running_loop().time()
        started = started or now
        try:
            left = started + limits.patience + received / limits.rate - now
            message = await asyncio.wait_for(receive(), left)
        except TimeoutError:
            raise _refusal(408, "the body of the request came too slowly") from None
        received += len(message.get("body", b""))
        check(received)
        whole = not message.get("more_body", False)
        return message

    check(int(headers.get("content-length", "0")))
    return receive_next


def _refusal(status: int, reason: str) -> HTTPException:
    return HTTPException(status, reason, _LAST)


def _host_name(host: str) -> str | None:
    """The name in a Host header, lower case, without its port and brackets; None where it is malformed."""
    found = _HOST.fullmatch(host.lower())
    return found and (found[1] or found[2])


def _is_address(name: str, own: str) -> bool:
    """Whether this is an IP address, which nobody can let point here; on loopback, one of loopback."""
    try:
        address = ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or not is_loopback(own)


def own_names(own: str) -> set[str]:
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
    """The name of the cookie that holds the token of the server that was asked."""
    _, port = scope.get("server") or ("", None)
    return f"{COOKIE}_{port}"


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode(), token.encode())


def _with_headers(scope: Scope, send: Send) -> Send:
    kept = "no-cache" if scope["path"].startswith("/static/") else "no-store"

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update({**_HEADERS, "cache-control": kept})
        await send(message)

    return send_with_headers
