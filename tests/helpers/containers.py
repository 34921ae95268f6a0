"""Files made of parts: taken apart, and put together again so that a changed part passes the checksums."""

import ast
import io
import json
import struct
import tomllib
import warnings
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.helpers.damage import Spared, altered, damaged, flipped, json_text, odd_text, toml_text

Change = Callable[[bytes, Random], bytes]


def spoil(file: Path, rng: Random) -> None:
    """Damage a file where it lies."""
    data = file.read_bytes()
    if file.suffix == ".toml" and rng.random() < 0.8:
        with suppress(ValueError):
            table = altered(tomllib.loads(data.decode()), rng)
            file.write_bytes(toml_text(table).encode("utf-8", "surrogatepass"))
            return
    if file.suffix in (".csv", ".txt") and not isinstance(rng, Spared) and rng.random() < 0.7:
        data = _spoiled_table(data.decode(), "," if file.suffix == ".csv" else " ", rng)
    else:
        data = spoiled(data, rng)
    file.write_bytes(data)


def _spoiled_table(text: str, comma: str, rng: Random) -> bytes:
    """Cells, lines and the head line changed, in some encoding."""
    lines = text.splitlines()
    for _ in range(rng.randint(1, 3)):
        number = rng.randrange(len(lines))
        cells = lines[number].split(comma)
        first, *others = cells
        changed = [
            [odd_text(rng), *others],
            [*cells[:-1], odd_text(rng)],
            cells * rng.choice((0, 2, 200)),
            [f'"{first}', *others],
            [f"{first}\0", *others],
            [*cells, "x" * rng.choice((10, 200_000))],
        ]
        lines[number] = comma.join(rng.choice(changed))
    whole = rng.choice(("\n", "\r\n", "\r")).join(lines)
    return whole.encode(rng.choice(("utf-8", "utf-16", "utf-8-sig", "latin-1")), "replace")


def spoiled(data: bytes, rng: Random) -> bytes:
    """A file damaged as its format has it: mostly in its parts, sometimes in its bytes."""
    if isinstance(rng, Spared):
        return data
    change = _FORMATS.get(data[:2]) or _FORMATS.get(data[8:9]) or _json
    if rng.random() < 0.75:
        with suppress(Exception):  # of another format, or damaged before
            return change(data, rng)
    return damaged(data, rng)


def _json(data: bytes, rng: Random) -> bytes:
    """A value of the file, or of a line of it, replaced."""
    try:
        return json_text(altered(json.loads(data), rng)).encode("utf-8", "surrogatepass")
    except ValueError:
        lines = data.splitlines(keepends=True)
        number = rng.randrange(len(lines))
        text = json_text(altered(json.loads(lines[number]), rng))
        lines[number] = text.encode("utf-8", "surrogatepass") + b"\n"
        return b"".join(lines)


def _zip(data: bytes, rng: Random) -> bytes:
    """Some members are changed, renamed, repeated, left out, or described wrongly.

    Some files have a bit flipped after they were packed, so that a checksum is wrong.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    for _ in range(rng.randint(1, 3)):
        number = rng.randrange(len(members))
        name, content = members[number]
        action = rng.randrange(6)
        if action < 3:
            members[number] = name, spoiled(content, rng)
        elif action == 3:
            members[number] = rng.choice((odd_text(rng), f"{odd_text(rng)}/{name}")) or "x", content
        elif action == 4:
            members.insert(number, members[number])
        elif len(members) > 1:
            del members[number]
    packed = packed_zip(members, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    last = rng.randrange(5)  # the directory is at the end
    end = len(packed) - 46 * len(members)
    if last == 0:
        return packed[:end] + damaged(packed[end:], rng)
    return flipped(packed, rng) if last == 1 else packed


def packed_zip(members: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", method) as archive:
        warnings.simplefilter("ignore")  # of two members with one name
        for name, content in members:
            info = zipfile.ZipInfo("x")
            info.filename = name.encode("utf-8", "replace").decode("utf-8") or "x"
            info.compress_type = method
            archive.writestr(info, content)
    return buffer.getvalue()


def _png(data: bytes, rng: Random) -> bytes:
    """A chunk is changed or repeated, or the first one has another size; lengths and checksums are right."""
    chunks, place = [], 8
    while place + 8 <= len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        chunks.append(data[place + 4 : place + 8 + length])
        place += 12 + length
    number = rng.randrange(len(chunks))
    kind, content = chunks[number][:4], chunks[number][4:]
    if kind == b"IHDR" and rng.random() < 0.6:
        sides = [rng.choice((0, 1, 17, 4000, 70_000, 80_000_000, 2**31 - 1)) for _ in range(2)]
        content = struct.pack(">II", *sides) + content[8:]
    elif kind == b"IDAT" and rng.random() < 0.5:
        content = zlib.compress(damaged(zlib.decompress(content), rng))
    else:
        kind = rng.choice((kind, kind, b"iCCP", b"zTXt", b"eXIf", b"tRNS", b"PLTE", b"acTL", b"fdAT"))
        content = damaged(content, rng)
    chunks[number : number + rng.randint(0, 1)] = [kind + content]
    packed = (
        struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks
    )
    return data[:8] + b"".join(packed)


def _safetensors(data: bytes, rng: Random) -> bytes:
    """Another header, whose length is right again, or other values."""
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    kind = rng.randrange(4)
    if kind == 0:
        header = altered(header, rng)
    elif kind == 1 and header.get("__metadata__"):
        described = header["__metadata__"]
        key = rng.choice(list(described))
        described[key] = spoiled(described[key].encode(), rng).decode("utf-8", "replace")
    elif kind == 2:
        entry = header[rng.choice([name for name in header if name != "__metadata__"])]
        entry["dtype"] = rng.choice(("F64", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "C64", "X", 3))
    else:
        body = _odd_values(body, rng)
    text = json_text(header).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + body


def _npy(data: bytes, rng: Random) -> bytes:
    """Another header, padded as the format wants it, or other values."""
    (length,) = struct.unpack("<H", data[8:10])
    header, body = ast.literal_eval(data[10 : 10 + length].decode("latin-1")), data[10 + length :]
    kind = rng.randrange(4)
    if kind == 0:
        sides = (-1, 0, 1, 3, 41, 10**6, 10**13, 2**62, 2**64, True)
        header["shape"] = tuple(rng.choice(sides) for _ in range(rng.randrange(4)))
    elif kind == 1:
        header["descr"] = rng.choice(
            (
                "|O",
                "<f2",
                ">f8",
                "<i8",
                "|b1",
                "<c16",
                "<U5",
                "|V0",
                "<M8[s]",
                "x",
                [("a", "<f4", (10**9,))],
                3,
            )
        )
    elif kind == 2:
        header = altered(header, rng)
    else:
        body = _odd_values(body, rng)
    text = (repr(header).encode("utf-8", "replace") + b"\n")[:60_000]
    text = text[:-1] + b" " * (-(len(text) + 10) % 64) + b"\n"
    return data[:8] + struct.pack("<H", len(text)) + text + body


def _odd_values(body: bytes, rng: Random) -> bytes:
    """One or all of the values of an array not finite, or very small or large; or damaged bytes."""
    odd = struct.pack("<f", rng.choice((float("nan"), float("inf"), -1e30, 0.0, 2.0, 1e-42)))
    place = rng.randrange(max(1, len(body) - 4))
    one = body[:place] + odd + body[place + 4 :]
    return rng.choice((damaged(body, rng), one, odd * (len(body) // 4)))


# By the first two bytes, or the ninth.
_FORMATS: dict[bytes, Change] = {
    b"PK": _zip, b"\x89P": _png, b"\x93N": _npy, b"{": _safetensors,
}  # fmt: skip
