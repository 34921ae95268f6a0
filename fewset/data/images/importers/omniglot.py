"""Omniglot as unpacked: `images_background/` and `images_evaluation/` with `alphabet/character/image.png`.

Each character makes four classes, turned by 0, 90, 180 and 270 degrees. Stored at 28 pixels as drawn: black
ink (0) on white paper (255); published code often inverts it. The split is that of Vinyals et al. in the form
which published results use: 1,028 characters to train, 172 to validate, 423 to test. It goes by alphabet
(one is cut in two), so it takes no seed, and a character's four classes are in one split.
"""

from pathlib import PurePosixPath

from fewset.core.errors import UserError
from fewset.data.images.importers import Entry, register_importer
from fewset.data.images.sources import Source

_FOLDERS = ("images_background", "images_evaluation")
_VAL = {"Armenian", "Bengali", "Early_Aramaic", "Hebrew", "Mkhedruli_(Georgian)"}
_TEST = {
    *("Kannada", "Keble", "Malayalam", "Manipuri", "Mongolian", "Old_Church_Slavonic_(Cyrillic)", "Oriya"),
    *("Sylheti", "Syriac_(Serto)", "Tengwar", "Tibetan", "ULOG"),
}


@register_importer("omniglot", size=28)
def entries(source: Source) -> list[Entry]:
    found = []
    folders = set()
    for file in source.images():
        folder, alphabet, character, *_ = ("", "", "", *PurePosixPath(file).parts)[-4:]
        if folder in _FOLDERS:
            folders.add(folder)
            for turns in range(4):
                name = f"{alphabet}/{character}/rot{90 * turns:03}"
                found.append(Entry(file, name, _split(alphabet, character), quarter_turns=turns))
    for folder in _FOLDERS:
        if folder not in folders:
            raise UserError(
                f"{source.path} is not in the layout of Omniglot: {folder}/alphabet/character/ has no images"
                f"; unpack {' and '.join(f'{name}.zip' for name in _FOLDERS)} into one folder"
            )
    return found


def _split(alphabet: str, character: str) -> str:
    if alphabet in _VAL:
        return "val"
    if alphabet in _TEST or (alphabet == "Gurmukhi" and character > "character41"):
        return "test"
    return "train"
