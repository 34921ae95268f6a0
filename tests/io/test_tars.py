import io
import tarfile
from pathlib import Path

import pytest

from fewset.io.reading import Damaged
from fewset.io.tars import Member, read_tar_member, tar_members

CONTENTS = {f"folder/{number}.jpg": bytes([number]) * (700 * number) for number in range(5)}


@pytest.fixture
def tar(tmp_path: Path) -> Path:
    with tarfile.open(tmp_path / "shard.tar", "w") as archive:
        for name, content in CONTENTS.items():
            found = tarfile.TarInfo(name)
            found.size = len(content)
            archive.addfile(found, io.BytesIO(content))
        link = tarfile.TarInfo("link.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return tmp_path / "shard.tar"


def test_members_are_read_in_any_order(tar: Path) -> None:
    members = list(tar_members(tar))
    assert [member.name for member in members] == list(CONTENTS)
    for member in reversed(members):
        assert read_tar_member(tar, member, 10**6) == CONTENTS[member.name]
    with pytest.raises(Damaged, match="more than the limit of 100"):
        read_tar_member(tar, members[-1], 100)
    with pytest.raises(Damaged, match="claims 99999"):
        read_tar_member(tar, Member("1.jpg", members[-1].start, 99_999), 10**6)


@pytest.mark.parametrize("keep", [300, 1500, 5000])
def test_a_cut_tar_is_damaged(tar: Path, keep: int) -> None:
    tar.write_bytes(tar.read_bytes()[:keep])
    with pytest.raises(Damaged):
        list(tar_members(tar))


def test_a_damaged_header_is_not_the_end(tar: Path) -> None:
    """tarfile would leave out all that follows."""
    content = bytearray(tar.read_bytes())
    member = list(tar_members(tar))[2]
    content[member.start - 400] ^= 255
    tar.write_bytes(content)
    with pytest.raises(Damaged, match="is damaged after"):
        list(tar_members(tar))


def test_a_compressed_tar_is_damaged(tmp_path: Path) -> None:
    tarfile.open(tmp_path / "a.tar", "w:gz").close()
    with pytest.raises(Damaged):
        list(tar_members(tmp_path / "a.tar"))
