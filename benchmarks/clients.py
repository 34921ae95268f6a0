"""Many clients of a server in one thread, which leaves the processor to the server as far as it can.

Each has a connection. It sends a request that is ready as bytes, reads the whole answer, and goes on.
"""

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_SECONDS = 600.0  # that an answer may take


class Reply(NamedTuple):
    body: bytes
    seconds: float
    """From the first byte that was sent to the last one that came."""


def request(host: str, method: str, address: str, body: bytes = b"", kind: str = "application/json") -> bytes:
    """A whole request, as it goes over the line."""
    lines = [f"{method} {address} HTTP/1.1", f"host: {host}", f"content-length: {len(body)}"]
    if body:
        lines.append(f"content-type: {kind}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def ask_all(host: str, requests: Sequence[bytes], clients: int) -> list[Reply]:
    """The answers in the order of the requests; an answer that is none, or a refusal, is an error."""
    return asyncio.run(_ask_all(host, requests, clients))


async def _ask_all(host: str, requests: Sequence[bytes], clients: int) -> list[Reply]:
    replies: dict[int, Reply] = {}
    waiting = iter(enumerate(requests))
    async with asyncio.TaskGroup() as group:
        for _ in range(min(clients, len(requests))):
            group.create_task(_client(host, waiting, replies))
    return [replies[number] for number in range(len(requests))]


async def _client(host: str, waiting: Iterator[tuple[int, bytes]], replies: dict[int, Reply]) -> None:
    """Ask what nobody else has asked yet, as long as there is something."""
    name, _, port = host.rpartition(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    try:
        for number, asked in waiting:
            began = time.perf_counter()
            async with asyncio.timeout(_SECONDS):
                writer.write(asked)
                await writer.drain()
                body = await _body(reader, asked)
            replies[number] = Reply(body, time.perf_counter() - began)
    finally:
        writer.close()


async def _body(reader: asyncio.StreamReader, asked: bytes) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *(\d+)\r\n", head, re.IGNORECASE)
    body = await reader.readexactly(int(length[1])) if length else b""
    if not head.startswith(b"HTTP/1.1 2"):
        told = (head.partition(b"\r\n")[0] + b" " + body).decode(errors="replace")
        raise RuntimeError(f"{asked.partition(b' HTTP')[0].decode()}: {told}")
    return body
