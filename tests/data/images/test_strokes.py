"""The embedded set: the same bytes for the same seed, whatever is rendered beside an item and wherever."""

from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from jaxtyping import Int, UInt8

from fewset.data.images import strokes
from fewset.data.images.store import SPLITS, open_set

PICTURES = "9420e93f18997e075bf437ea57e11c28233de98fa49627c7548588a2da552851"


def pictures(
    seed: int = 0, labels: tuple[int, ...] = (3, 201), items: int = 5
) -> UInt8[np.ndarray, "_ 32 32 3"]:
    """Some items of some classes in both domains, class by class."""
    return np.concatenate(
        [
            strokes.render(
                strokes.alphabet(seed, label // 10)[label % 10], domain, seed, label, np.arange(items)
            )
            for label in labels
            for domain in strokes.DOMAINS
        ]
    )


def test_bytes_are_pinned() -> None:
    # If this fails on another machine or another NumPy, equal bytes are broken: mend the arithmetic.
    # If the set was changed on purpose, write the new digest here and say so in the changelog.
    assert sha256(pictures().tobytes()).hexdigest() == PICTURES


def test_flushed_denormals_change_nothing() -> None:
    # The command line flushes them for speed (`fewset.compute.machine.tune`), library users may not.
    plain = pictures()
    torch.set_flush_denormal(True)
    try:
        flushed = pictures()
    finally:
        torch.set_flush_denormal(False)
    np.testing.assert_array_equal(plain, flushed)


@pytest.mark.parametrize("domain", strokes.DOMAINS)
def test_an_item_depends_on_its_own_number_alone(domain: str) -> None:
    character = strokes.alphabet(0, 0)[1]
    together = strokes.render(character, domain, 0, 1, np.arange(7))
    for item in (6, 0, 3):
        alone = strokes.render(character, domain, 0, 1, np.array([item]))
        np.testing.assert_array_equal(alone[0], together[item])


def test_characters_are_distinct_and_fill_their_box() -> None:
    characters = [character for number in range(7) for character in strokes.alphabet(0, number)]
    assert len({character.tobytes() for character in characters}) == 70
    for character in characters:
        assert 2 <= len(character) <= 4
        assert np.abs(character).max() <= 1 + 1e-12


def test_layout_of_the_whole_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stamp(
        _: object, domain: str, seed: int, label: int, items: Int[np.ndarray, " items"]
    ) -> UInt8[np.ndarray, "items 32 32 3"]:
        """In place of a picture, what it should be of: rendering takes long and is tested above."""
        images = np.zeros((len(items), 32, 32, 3), dtype=np.uint8)
        images[:, 0, 0], images[:, 0, 1, 0] = (label, strokes.DOMAINS.index(domain), seed), items
        return images

    monkeypatch.setattr(strokes, "render", stamp)
    strokes.write_strokes(tmp_path / "strokes", seed=5)
    made = open_set(tmp_path / "strokes")
    assert made.domains is not None
    assert made.images.shape == (19_200, 32, 32, 3)
    assert (made.images[:, 0, 0, 2] == 5).all()
    np.testing.assert_array_equal(made.labels, made.images[:, 0, 0, 0])
    np.testing.assert_array_equal(made.domains, made.images[:, 0, 0, 1])
    cells = np.stack([made.labels, made.domains, made.images[:, 0, 1, 0]], axis=1)
    assert len(np.unique(cells, axis=0)) == 240 * 2 * 40
    assert made.domain_names == ("ink", "chalk")
    assert made.origins is None
    assert len(set(made.class_names)) == 240

    classes = [set(made.select(split).labels.tolist()) for split in SPLITS]
    assert [len(each) for each in classes] == [160, 40, 40]
    assert len(set.union(*classes)) == 240
    # No alphabet is in two splits: its characters share strokes.
    assert len({label // 10 for label in classes[0]} & {label // 10 for label in classes[2]}) == 0
    for split in SPLITS:
        for domain in strokes.DOMAINS:
            assert (np.unique(made.select(split, domain).labels, return_counts=True)[1] == 40).all()


def test_a_small_set_is_rendered_into_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strokes, "ALPHABETS", {"train": 1, "val": 1, "test": 1})
    monkeypatch.setattr(strokes, "ITEMS", 2)
    digests = []
    for name, seed in (("once", 0), ("again", 0), ("other", 1)):
        strokes.write_strokes(tmp_path / name, seed)
        digests.append(open_set(tmp_path / name).digest)
    assert digests[0] == digests[1] != digests[2]
    made = open_set(tmp_path / "once")
    np.testing.assert_array_equal(
        made.images[np.isin(made.labels, (0, 23))], pictures(labels=(0, 23), items=2)
    )
