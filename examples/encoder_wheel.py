"""Make a wheel of a vision model of transformers: whoever installs it has an encoder of that name.

    hf download facebook/dinov2-small --local-dir dinov2-small
    python examples/encoder_wheel.py dinov2-small
    pip install dist/fewset_encoder_dinov2_small-1.0-py3-none-any.whl
    fewset fit photos/ -o my.fewset --encoder dinov2-small

The weights are stored in half precision. The wheel has the directory's licence and card, if it has any; check
that the licence lets you pass the model on. fewset finds the encoder by the entry point `fewset.plugins`.
"""

import argparse
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from safetensors.torch import load_file, save

from fewset.io.files import replacing

MODULE = '''"""The encoder {name} of fewset, a vision model of transformers."""

from dataclasses import replace
from pathlib import Path

from fewset.encoders import register_encoder
from fewset.encoders.huggingface import load_huggingface


@register_encoder("{name}")
def load(device):
    return replace(load_huggingface(str(Path(__file__).parent / "model"), device), id="{name}")
'''
METADATA = """Metadata-Version: 2.1
Name: {project}
Version: {version}
Summary: The encoder {name} for fewset
Requires-Dist: fewset[hf]
Description-Content-Type: text/markdown

{card}
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: fewset\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def contents(model: Path, name: str, version: str) -> Iterator[tuple[str, bytes]]:
    """The files of the wheel but for its record."""
    module = re.sub(r"\W", "_", f"fewset_encoder_{name}")
    about = f"{module}-{version}.dist-info"
    card = model / "README.md"
    text = card.read_text(encoding="utf-8") if card.exists() else f"The vision model {name}."
    project = module.replace("_", "-")
    tensors = {
        key: value for file in sorted(model.glob("*.safetensors")) for key, value in load_file(file).items()
    }
    half = {key: value.half() if value.is_floating_point() else value for key, value in tensors.items()}
    yield f"{module}/__init__.py", MODULE.format(name=name).encode()
    yield f"{module}/model/model.safetensors", save(half, metadata={"format": "pt"})
    for file in sorted(model.glob("*config.json")):
        yield f"{module}/model/{file.name}", file.read_bytes()
    for file in sorted(model.glob("LICENSE*")):
        yield f"{about}/licenses/{file.name}", file.read_bytes()
    yield (
        f"{about}/METADATA",
        METADATA.format(project=project, version=version, name=name, card=text).encode(),
    )
    yield f"{about}/WHEEL", WHEEL.encode()
    yield f"{about}/entry_points.txt", f"[fewset.plugins]\n{name} = {module}\n".encode()


def build(model: Path, name: str, version: str, out: Path) -> Path:
    """Write the wheel into the directory `out`."""
    if not list(model.glob("*.safetensors")):
        raise SystemExit(f"error: {model} has no *.safetensors; download a model with `hf download`")
    module = re.sub(r"\W", "_", f"fewset_encoder_{name}")
    wheel, record = out / f"{module}-{version}-py3-none-any.whl", f"{module}-{version}.dist-info/RECORD"
    out.mkdir(parents=True, exist_ok=True)
    lines = [f"{record},,"]
    with replacing(wheel) as temporary, ZipFile(temporary, "w", ZIP_DEFLATED) as archive:
        for path, content in contents(model, name, version):
            archive.writestr(path, content)
            digest = urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{path},sha256={digest},{len(content)}")
        archive.writestr(record, "\n".join(lines) + "\n")
    return wheel


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make a wheel of a vision model of transformers.")
    parser.add_argument("model", type=Path, help="the directory of the model")
    parser.add_argument("--name", help="the name of the encoder; default: that of the directory")
    parser.add_argument("--version", default="1.0")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="where the wheel goes; default: dist")
    given = parser.parse_args()
    print(build(given.model, given.name or given.model.resolve().name, given.version, given.out))
