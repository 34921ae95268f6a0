"""onnxruntime-web, which computes ONNX files in browsers: two files of a package of npm, not of this one."""

from pathlib import Path

from fewset.core.errors import UserError

FILES = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
_PLACE = Path("node_modules", "onnxruntime-web", "dist")


def find_runtime(directory: Path | None = None) -> list[Path]:
    """The files in a directory, or where npm puts them: below this directory or one above it."""
    here = Path.cwd()
    places = [directory] if directory else [above / _PLACE for above in (here, *here.parents)]
    for place in places:
        found = [place / name for name in FILES]
        if all(file.is_file() for file in found):
            return found
    where = str(directory) if directory else f"{_PLACE} of {here} or above"
    raise UserError(
        f"there is no {FILES[0]} with {FILES[1]} in {where}; get them with `npm install onnxruntime-web`, or "
        "name their directory: --runtime DIR"
    )


def has_runtime() -> bool:
    """Whether npm has put the files where `find_runtime` looks."""
    try:
        find_runtime()
    except UserError:
        return False
    return True
