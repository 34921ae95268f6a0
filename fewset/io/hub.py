"""`hub:OWNER/NAME`: models on the Hugging Face Hub, downloaded on request alone.

`hub:OWNER/NAME@REVISION` is a branch, tag or commit. Files are kept in the cache of huggingface_hub.
"""

from collections.abc import Sequence
from pathlib import Path

from fewset.core.errors import UserError
from fewset.core.extras import import_extra

PREFIX = "hub:"


def is_on_hub(name: object) -> bool:
    """Whether a name means a model on the Hub, and not a path."""
    return str(name).startswith(PREFIX)


def download(name: str, files: Sequence[str]) -> Path:
    """The directory with these files (patterns) of a model on the Hub."""
    hub = import_extra("huggingface_hub", "hub")
    model, _, revision = name.removeprefix(PREFIX).partition("@")
    try:
        return Path(hub.snapshot_download(model, revision=revision or None, allow_patterns=list(files)))
    except Exception as error:  # the library raises its own errors, those of its HTTP client, and OSError
        said = " ".join(str(error).split())
        raise UserError(
            f"{name} cannot be downloaded ({said:.200}); check the connection and the name, which is "
            f"{PREFIX}OWNER/NAME"
        ) from None
