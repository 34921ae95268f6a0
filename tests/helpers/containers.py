"""Files made of parts: taken apart, and put together again so that a changed part passes the checksums."""

import ast
import io
import json
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

from tests.helpers.damage import Spared, altered, damaged, flipped, json_text, odd_number, odd_text

Change = Callable[[bytes], bytes]


def changed_zip(data: bytes, rng: Random, change: Change) -> bytes:
    """A zip file with some members changed, renamed, repeated, left out, or with lies about them.

    Some have bits flipped after they were packed, so that a checksum is wrong.
    """
    if isinstance(rng, Spared):
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    for _ in range(rng.randint(1, 3)):
        if not members:
            break
        number = rng.randrange(len(members))
        name, content = members[number]
        action = rng.randrange(6)
        if action < 3:
            members[number] = name, change(content)
        elif action == 3:
            members[number] = rng.choice((odd_text(rng), f"{odd_text(rng)}/{name}")) or "x", content
        elif action == 4:
            members.insert(number, members[number])
        else:
            del members[number]
    packed = packed_zip(members, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    return rng.choice((_same, _same, _same, _lying_zip, flipped))(packed, rng)


def _same(data: bytes, rng: Random) -> bytes:  # noqa: ARG001
    return data


def packed_zip(members: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", method) as archive:
        warnings.simplefilter("ignore")  # of two members with one name
        for name, content in members:
            archive.writestr(_zip_info(name, method), content)
    return buffer.getvalue()


def _zip_info(name: str, method: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("x")
    info.filename = name.encode("utf-8", "replace").decode("utf-8") or "x"
    info.compress_type = method
    return info


def _lying_zip(data: bytes, rng: Random) -> bytes:
    """Another number in a field of an entry of the directory: version, flags, method, sizes, offset."""
    places = [place for place in range(len(data) - 46) if data[place : place + 4] == b"PK\1\2"]
    if not places:
        return data
    field, kind = rng.choice(
        ((4, "<H"), (6, "<H"), (8, "<H"), (10, "<H"), (20, "<I"), (24, "<I"), (42, "<I"))
    )
    place = rng.choice(places) + field
    number = struct.pack(
        kind, rng.choice((0, 1, 8, 99, 2**16 - 1, 2**31, 2**32 - 1)) % 256 ** struct.calcsize(kind)
    )
    return data[:place] + number + data[place + len(number) :]


def changed_png(data: bytes, rng: Random) -> bytes:
    """A PNG file with chunks changed, repeated or left out; lengths and checksums are right again."""
    if isinstance(rng, Spared):
        return data
    chunks, place = [], 8
    while place + 8 <= len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        chunks.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + length]))
        place += 12 + length
    for _ in range(rng.randint(1, 3)):
        number = rng.randrange(len(chunks))
        kind, content = chunks[number]
        if kind == b"IHDR" and rng.random() < 0.6:
            sides = [rng.choice((0, 1, 17, 4000, 70_000, 80_000_000, 2**31 - 1)) for _ in range(2)]
            chunks[number] = kind, struct.pack(">II", *sides) + content[8:]
        elif kind == b"IDAT" and rng.random() < 0.5:
            chunks[number] = kind, zlib.compress(damaged(_unpacked(content), rng))
        elif rng.random() < 0.3:
            added = rng.choice((b"iCCP", b"zTXt", b"eXIf", b"tRNS", b"PLTE", b"acTL", b"fdAT", b"IDAT"))
            chunks.insert(number, (added, damaged(b"x\0\0" + zlib.compress(bytes(300)), rng)))
        else:
            chunks[number] = kind, damaged(content, rng)
    packed = (
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )
    return data[:8] + b"".join(packed)


def _unpacked(content: bytes) -> bytes:
    try:
        return zlib.decompress(content)
    except zlib.error:  # damaged already
        return content


def changed_jpeg(data: bytes, rng: Random) -> bytes:
    """A JPEG file with a segment changed: its size, tables, the orientation in its EXIF data."""
    if isinstance(rng, Spared):
        return data
    segments = [place for place in range(len(data) - 4) if data[place] == 0xFF and data[place + 1] >= 0xC0]
    place = rng.choice(segments) + rng.randrange(2, 12)
    kind = rng.randrange(3)
    if kind == 0:  # a segment before all others
        content = rng.choice((b"Exif\0\0", b"ICC_PROFILE\0", b"Adobe", b"MPF\0", b"")) + rng.randbytes(40)
        marker = bytes([0xFF, rng.choice((0xE1, 0xE2, 0xEE, 0xC0, 0xDB, 0xC4))])
        return data[:2] + marker + struct.pack(">H", len(content) + 2) + content + data[2:]
    if kind == 1:
        return data[:place] + struct.pack(">H", rng.choice((0, 1, 2, 255, 65_535))) + data[place + 2 :]
    return data[:place] + damaged(data[place : place + 30], rng) + data[place + 30 :]


def changed_safetensors(data: bytes, rng: Random, change: Callable[[Any], Any] | None = None) -> bytes:
    """A safetensors file with another header (its length is right again) or other numbers.

    :param change: for the tables within the description; by default they are altered.
    """
    if isinstance(rng, Spared):
        return data
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    kind = rng.randrange(4)
    if kind == 0:
        header = altered(header, rng)
    elif kind == 1 and header.get("__metadata__"):
        described = header["__metadata__"]
        key = rng.choice(list(described))
        described[key] = _altered_text(described[key], rng, change)
    elif kind == 2:
        name = rng.choice([name for name in header if name != "__metadata__"])
        entry = header[name]
        field = rng.choice(("dtype", "shape", "data_offsets"))
        entry[field] = {
            "dtype": rng.choice(("F64", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "C64", "X", 3)),
            "shape": [odd_number(rng) for _ in range(rng.randrange(4))],
            "data_offsets": [int(rng.choice((0, 1, len(body), 2**40, 2**63))) for _ in range(2)],
        }[field]
    else:
        place = rng.randrange(max(1, len(body) - 4))
        odd = struct.pack("<f", rng.choice((float("nan"), float("inf"), -1e30, 0.0, 1e-42)))
        body = rng.choice((damaged(body, rng), body[:place] + odd + body[place + 4 :]))
    text = json_text(header).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + body


def _altered_text(text: str, rng: Random, change: Callable[[Any], Any] | None) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return odd_text(rng)
    return json_text(change(value) if change else altered(value, rng))


def changed_npy(data: bytes, rng: Random) -> bytes:
    """An NPY file with another header, padded as the format wants it, or other numbers."""
    if isinstance(rng, Spared):
        return data
    (length,) = struct.unpack("<H", data[8:10])
    try:
        header, body = ast.literal_eval(data[10 : 10 + length].decode("latin-1")), data[10 + length :]
    except (SyntaxError, ValueError):  # damaged before, or of another version
        header = None
    if not isinstance(header, dict):
        return damaged(data, rng)
    kind = rng.randrange(4)
    if kind == 0:
        sides = [
            rng.choice((-1, 0, 1, 3, 41, 10**6, 10**13, 2**62, 2**64, True)) for _ in range(rng.randrange(4))
        ]
        header["shape"] = tuple(sides)
    elif kind == 1:
        header["descr"] = rng.choice(
            ("|O", "<f2", ">f8", "<f4", "<i8", "|b1", "<c16", "<U5", "|V0", "<M8[s]", "|S0", "x",
             [("a", "<f4")], [("a", "<f4", (10**9,))], 3)
        )  # fmt: skip
    elif kind == 2:
        header = altered(header, rng)
    else:
        numbers = [float("nan"), float("inf"), -1.0, 2.0, 1e30]
        body = rng.choice((damaged(body, rng), struct.pack("<f", rng.choice(numbers)) * (len(body) // 4)))
    text = (repr(header).encode("utf-8", "replace") + b"\n")[:60_000]
    text = text[:-1] + b" " * (-(len(text) + 10) % 64) + b"\n"
    return data[:8] + struct.pack("<H", len(text)) + text + body
