"""Who may ask for what: the first thing that a request meets. An ASGI middleware without a framework.

A page of another site can make the browser send requests to this server, directly or by a name that it lets
point here (DNS rebinding). So the Host must be one of this server's own, and a request that comes from a page
must come from this server's. Where the server is reachable from other machines, a token is needed, too.
"""

import asyncio
import base64
import binascii
import json
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from socket import gethostname
from typing import Any
from urllib.parse import parse_qs, urlsplit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "fewset_token"
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


@dataclass(frozen=True)
class Limits:
    """How much a client may send, and how slowly."""

    body: int = 256 * MEBIBYTE
    bodies: int = 2048 * MEBIBYTE
    """Of all requests that are under way."""
    pause: float = 20.0
    """Seconds within which the next part of a body must come."""
    time: float = 300.0
    """Seconds for a whole body."""


class Refusal(Exception):  # noqa: N818 - what is told to the client
    """A request that goes no further: a status and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Guard:
    """Lets requests through to an application that fulfil the rules, and adds headers to what it answers."""

    def __init__(
        self,
        application: Application,
        *,
        host: str = "127.0.0.1",
        token: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.application, self.host, self.token, self.limits = application, host, token, limits or Limits()
        self._received = 0  # bytes of all bodies under way

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        body, answer = _Body(self, receive), _Answer(scope, send)
        try:
            headers = Headers(scope["headers"])
            check_host(headers.only("host"), self.host)
            check_origin(headers, scope["method"])
            if check_token(headers, scope, self.token):
                await answer.redirect(self.token or "")
                return
            body.check_announced(headers.only("content-length"))
            await self.application(scope, body.receive, answer.send_unless(body))
        except Refusal as refusal:
            body.refusal = refusal
        finally:
            self._received -= body.received
        if body.refusal is not None:
            await answer.refuse(body.refusal)

    def take(self, size: int) -> None:
        """Count bytes that came in, as long as there is room for them."""
        if self._received + size > self.limits.bodies:
            raise Refusal(503, "too much is being uploaded at this moment; come again in a few seconds")
        self._received += size


class Headers:
    """The headers of a request; none that matters here may come twice."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in raw:
            self._values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def only(self, name: str) -> str | None:
        values = self._values.get(name, [])
        if len(values) > 1:
            raise Refusal(400, f"the header {name} came {len(values)} times, expected once")
        return values[0] if values else None


def check_host(host: str | None, own: str) -> None:
    """Refuse a Host that is not this server's. Its port may be another: it may be forwarded."""
    name = _host_name(host or "")
    if name is None or not (name in own_names(own) or _is_address(name, own)):
        raise Refusal(
            421,
            f"the Host {(host or '')[:100]!r} is not this server's; open it as http://localhost, or start "
            "it with --host and that name",
        )


def check_origin(headers: Headers, method: str) -> None:
    """Refuse what a page of another site sends; a link on one may be followed."""
    origin, site = headers.only("origin"), headers.only("sec-fetch-site")
    if origin is not None:
        if origin.lower().partition("://")[2] != (headers.only("host") or "").lower():
            raise Refusal(403, f"a page of {origin[:100]!r} may not use this server")
    elif site in ("cross-site", "same-site"):
        followed = headers.only("sec-fetch-mode") == "navigate" and method in ("GET", "HEAD")
        if not followed:
            raise Refusal(403, "a page of another site may not use this server")


def check_token(headers: Headers, scope: Scope, token: str | None) -> bool:
    """Refuse who does not know the token. Whether it came in the address, where it should not stay."""
    if token is None:
        return False
    asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[-1]
    if scope["method"] == "GET" and _same(asked, token):
        return True
    if not any(_same(given, token) for given in _given_tokens(headers)):
        raise Refusal(
            401,
            "this server needs the token that `fewset serve` printed: open the address that it printed, or "
            "send the header Authorization: Bearer TOKEN",
        )
    return False


class _Body:
    """What a client sends, counted while it comes."""

    def __init__(self, guard: Guard, receive: Receive) -> None:
        self.guard, self.source, self.received = guard, receive, 0
        self.deadline: float | None = None
        self.whole = False
        self.refusal: Refusal | None = None

    def check_announced(self, length: str | None) -> None:
        if length is not None and not (length.isascii() and length.isdigit()):
            raise Refusal(400, f"the Content-Length is {length[:100]!r}, expected a number of bytes")
        self._check(int(length or 0))

    async def receive(self) -> Message:
        """The next part. A refusal is kept: frameworks make errors of their own of what is raised here."""
        if self.whole:  # what comes now is that the client has gone
            return await self.source()
        try:
            return await self._next()
        except Refusal as refusal:
            self.refusal = refusal
            raise

    async def _next(self) -> Message:
        limits, clock = self.guard.limits, asyncio.get_running_loop().time
        self.deadline = self.deadline or clock() + limits.time
        try:
            message = await asyncio.wait_for(self.source(), min(limits.pause, self.deadline - clock()))
        except TimeoutError:
            raise Refusal(408, "the body of the request came too slowly") from None
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            self._check(self.received + size)
            self.guard.take(size)
            self.received += size
            self.whole = not message.get("more_body", False)
        return message

    def _check(self, size: int) -> None:
        if size > self.guard.limits.body:
            raise Refusal(
                413, f"more than {self.guard.limits.body} bytes at once; send fewer photos at a time"
            )


def _host_name(host: str) -> str | None:
    """The name in a Host header, lower case, without its port and brackets; None where it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018 - raises where it is not a number
    except ValueError:
        return None
    if parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        return None
    return parts.hostname


def _is_address(name: str, own: str) -> bool:
    """Whether this is a number, no name that somebody could let point here; on loopback, one of loopback."""
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


def _given_tokens(headers: Headers) -> list[str]:
    """From the cookie, or from Authorization: Bearer, or Basic, where it is the password (Label Studio)."""
    found = []
    try:
        cookie = SimpleCookie(headers.only("cookie") or "").get(COOKIE)
    except CookieError:
        cookie = None
    if cookie is not None:
        found.append(cookie.value)
    kind, _, given = (headers.only("authorization") or "").partition(" ")
    if kind.lower() == "bearer":
        found.append(given.strip())
    elif kind.lower() == "basic":
        with suppress(binascii.Error, ValueError):
            found.append(base64.b64decode(given, validate=True).decode("latin-1").partition(":")[2])
    return found


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode(), token.encode())


def _extra_headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    kept = "no-cache" if scope["path"].startswith("/static/") else "no-store"
    headers = {**_HEADERS, "cache-control": kept}
    return [(name.encode(), value.encode()) for name, value in headers.items()]


class _Answer:
    """What is sent back, with the headers that all answers have."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.scope, self.sink, self.started = scope, send, False

    def send_unless(self, body: _Body) -> Send:
        """Sends what the application says, unless the body was refused before it said anything."""

        async def send(message: Message) -> None:
            if self.started or body.refusal is None:
                await self.send(message)

        return send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            message["headers"] = [*message.get("headers", ()), *_extra_headers(self.scope)]
        await self.sink(message)

    async def redirect(self, token: str) -> None:
        """To the page, without the token in its address; the browser keeps it as a cookie."""
        cookie = f"{COOKIE}={token}; HttpOnly; SameSite=Lax; Path=/"
        await self._whole(303, b"", [(b"location", b"/"), (b"set-cookie", cookie.encode())])

    async def refuse(self, refusal: Refusal) -> None:
        """What the client still wants to send is not read, so that the connection is of no more use."""
        if self.started:
            return
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        if refusal.status == 401:
            headers.append((b"www-authenticate", b'Basic realm="fewset", charset="UTF-8"'))
        if refusal.status == 503:
            headers.append((b"retry-after", b"5"))
        await self._whole(refusal.status, json.dumps({"detail": str(refusal)}).encode(), headers)

    async def _whole(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        length = (b"content-length", str(len(body)).encode())
        await self.send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
        await self.send({"type": "http.response.body", "body": body})
