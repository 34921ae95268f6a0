"""The same classes in several domains: `domain/class/image`, as OfficeHome has it.

Every domain has every class: a class that is spelt differently in two domains would be two classes, perhaps
one for training and one for testing. A file `X-1`, `X-2`, … derives from the file `X` of the same class in
another domain, as Sketchy names the sketches of a photo, and shares its origin. Equal names alone mean
nothing: OfficeHome counts from 00001 in each class of each domain.
"""

import re
from pathlib import PurePosixPath

from fewset.core.errors import UserError
from fewset.data.images.importers import Entry, register_importer
from fewset.data.images.sources import Source


@register_importer("domains", shares=(25, 15, 25))  # the paper's split of the 65 classes of OfficeHome
def entries(source: Source) -> list[Entry]:
    """Other files are ignored, and so is one folder around everything."""
    images = {file: PurePosixPath(file).parts for file in source.images()}
    if len({parts[0] for parts in images.values()}) == 1 and all(len(parts) > 3 for parts in images.values()):
        images = {file: parts[1:] for file, parts in images.items()}
    for file, parts in images.items():
        if len(parts) != 3:
            expected = "the layout of domains, domain/class/image"
            raise UserError(f"{file} in {source.path} does not fit {expected}; move or remove it")
    found = [Entry(file, class_name, domain=domain) for file, (domain, class_name, _) in images.items()]
    _check(source, found)
    return _with_origins(found)


def _check(source: Source, found: list[Entry]) -> None:
    domains = sorted({str(entry.domain) for entry in found})
    if len(domains) == 1:
        raise UserError(
            f"{source.path} has one domain, {domains[0]!r}, expected two or more; import the set as folder"
        )
    there = {f"{entry.domain}/{entry.class_name}" for entry in found}
    missing = sorted({f"{domain}/{entry.class_name}" for domain in domains for entry in found} - there)
    if missing:
        raise UserError(
            f"{source.path} has no images in {', '.join(missing[:5])}; expected every class in every domain "
            f"({', '.join(domains)}): spell it the same in all of them, or remove it from all"
        )


def _with_origins(found: list[Entry]) -> list[Entry]:
    names = [f"{entry.class_name}/{PurePosixPath(entry.file).stem}" for entry in found]
    domains_of: dict[str, set[str | None]] = {}
    for entry, name in zip(found, names, strict=True):
        domains_of.setdefault(name, set()).add(entry.domain)
    origins = {}
    for entry, name in zip(found, names, strict=True):
        derived = re.fullmatch(r"(.+)-\d+", name)
        if derived and domains_of.get(derived[1], set()) - {entry.domain}:
            origins[entry.file] = derived[1]
    if not origins:
        return found
    shared = set(origins.values())
    for entry, name in zip(found, names, strict=True):
        origins.setdefault(entry.file, name if name in shared else entry.file)
    return [entry._replace(origin=origins[entry.file]) for entry in found]
