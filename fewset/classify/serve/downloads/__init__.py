"""What can be taken away from the page. One file each: `@register_download("name")`, and there is a button.

What is registered is a function `make(moment, folder)`. It writes a file or a folder into `folder`, which is
its own and empty, and returns the path; a folder is sent as a zip file. Its docstring's first line, without
the full stop, is what the button says. A member whose libraries are not installed does not register.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from fewset.classify.serve.workbench import Moment
from fewset.core.registry import Registry

Make = Callable[[Moment, Path], Path]
DOWNLOADS: Registry[Make] = Registry("download", __name__)
register_download = DOWNLOADS.register


def title(name: str) -> str:
    """What the button of a download says."""
    return (DOWNLOADS[name].__doc__ or name).strip().splitlines()[0].rstrip(".")


def packed(name: str, moment: Moment) -> tuple[str, bytes]:
    """The name of the file and what is in it."""
    make = DOWNLOADS[name]
    with TemporaryDirectory(prefix="fewset-") as folder:
        empty = Path(folder, "download")
        empty.mkdir()
        made = make(moment, empty)
        if made.is_dir():
            made = Path(shutil.make_archive(str(Path(folder, made.name)), "zip", made))
        return made.name, made.read_bytes()
