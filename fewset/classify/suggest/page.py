"""A page of the photos to label next, in one file: small pictures, with what the classifier says of each."""

from base64 import b64encode
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from fewset.classify.suggest.suggestions import Suggestion
from fewset.core.names import one_line

_JPEG = "data:image/jpeg;base64,"


def suggestions_page(title: str, found: Sequence[Suggestion], thumbnails: Sequence[bytes]) -> str:
    """The page, as HTML; a photo without a thumbnail is shown by its name."""
    cards = [
        {
            "name": one_line(each.name),
            "link": Path(each.name).absolute().as_uri() if Path(each.name).is_file() else None,
            "picture": _JPEG + b64encode(thumbnail).decode() if thumbnail else None,
            "top": [(str(label), f"{100 * share:.0f} %") for label, share in each.answer.top],
            "new_class": each.new_class,
        }
        for each, thumbnail in zip(found, thumbnails, strict=True)
    ]
    text = resources.files("fewset.classify.suggest").joinpath("page.html.j2").read_text(encoding="utf-8")
    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    groups = [[card for card in cards if card["new_class"] is new] for new in (False, True)]
    return template.from_string(text).render(title=title, unsure=groups[0], new=groups[1])
