"""The photos of Label Studio's tasks, from the task itself or from the one Label Studio that was named.

Label Studio gives its users two kinds of keys. A legacy token is sent as it is. A personal access token,
three parts with dots between them, is exchanged for one that is valid for some minutes.
"""

import base64
import binascii
import json
from os import environ
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote_to_bytes, urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from fewset.classify.web.interface import LARGEST
from fewset.runtime.errors import UserError

API_KEY = "LABEL_STUDIO_API_KEY"
"""The variable with the access token by which photos are fetched from Label Studio."""
_SECONDS = 10


class TaskPhotos:
    """Reads photos where tasks say they are; `address` is that of the Label Studio, if there is one."""

    def __init__(self, address: str | None = None) -> None:
        self.address = checked_address(address)
        self._authorization: str | None = None

    def __call__(self, place: Any) -> bytes:
        """The photo of a task: from the task itself, or from the Label Studio at `address`."""
        if not isinstance(place, str):
            raise OSError("the task has no photo where the configuration says")
        if place.startswith("data:"):
            return _from_data(place)
        if self.address is None:
            raise OSError(
                "photos are not fetched from addresses; send them as data: addresses, or start "
                "`fewset serve` with --label-studio and the address of your Label Studio"
            )
        base = urlsplit(self.address)
        url = urljoin(self.address, place)
        parts = urlsplit(url)
        inside = (parts.scheme, parts.netloc) == (base.scheme, base.netloc) and parts.path.startswith(
            f"{base.path}data/"
        )
        if not inside or ".." in parts.path:
            raise OSError(f"photos are fetched from {self.address}data/ only")
        return self._fetched(url)

    def _fetched(self, url: str) -> bytes:
        try:
            try:
                data = self._asked(Request(url))
            except HTTPError as error:
                if error.code != 401 or not _is_personal(environ.get(API_KEY, "")):
                    raise
                self._authorization = None  # that of before is no longer valid
                data = self._asked(Request(url))
        except (URLError, ValueError, KeyError, TypeError) as error:
            raise OSError(f"cannot be fetched from Label Studio: {error}; is {API_KEY} set?") from None
        if len(data) > LARGEST:
            raise OSError(f"more than {LARGEST} bytes")
        return data

    def _asked(self, request: Request) -> bytes:
        key = environ.get(API_KEY)
        if key and self._authorization is None:
            self._authorization = self._exchanged(key) if _is_personal(key) else f"Token {key}"
        if self._authorization is not None:
            request.add_header("Authorization", self._authorization)
        return _answer(request)

    def _exchanged(self, key: str) -> str:
        request = Request(
            f"{self.address}api/token/refresh/",
            json.dumps({"refresh": key}).encode(),
            {"Content-Type": "application/json"},
        )
        return f"Bearer {json.loads(_answer(request))['access']}"


def checked_address(address: str | None) -> str | None:
    """The address of a Label Studio, with a slash at its end."""
    if address is None:
        return None
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise UserError(
            f"{address!r} is no address of a Label Studio; expected one like http://localhost:8080"
        )
    return address.rstrip("/") + "/"


def _is_personal(key: str) -> bool:
    return key.count(".") == 2


def _from_data(place: str) -> bytes:
    head, _, content = place.partition(",")
    if not head.endswith(";base64"):
        return unquote_to_bytes(content)
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError) as error:
        raise OSError(f"not in base64: {error}") from None


class _NoRedirects(HTTPRedirectHandler):
    """A redirect could lead to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _answer(request: Request) -> bytes:
    with build_opener(_NoRedirects).open(request, timeout=_SECONDS) as response:
        data: bytes = response.read(LARGEST + 1)
    return data
