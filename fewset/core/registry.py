"""Members of a kind by name: adapters, heads, backbones, encoders, protocols and importers alike.

Each kind has one `Registry`, in the `__init__` of the package that its own members lie in. They are imported
when the first name is looked up, and so are the installed packages that say in the entry-point group
`fewset.plugins` that they bring members. A file of one's own is loaded with `fewset.experiments.plugins`.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module, metadata
from pkgutil import iter_modules
from threading import RLock
from typing import Any, TypeVar

from fewset.core.errors import UserError, refuse_unknown

Member = TypeVar("Member")
Registered = TypeVar("Registered")

ENTRY_POINTS = "fewset.plugins"
_LOCK = RLock()  # one for all registries: members of one kind look up those of another


class Registry(Mapping[str, Member]):
    """The members of one kind, by name; looking up another name raises a `UserError` that suggests one."""

    kinds: "dict[str, Registry[Any]]" = {}  # noqa: RUF012 - one for the whole program, which is the point

    def __init__(self, kind: str, package: str) -> None:
        self.kind, self.package = kind, package
        self._members: dict[str, Member] = {}
        self._loaded = self._loading = False
        Registry.kinds[kind] = self

    def register(self, name: str) -> Callable[[Registered], Registered]:
        """Decorator: make a class or function known under `name`, which must be free."""

        def decorate(member: Registered) -> Registered:
            if name in self._members:
                raise UserError(
                    f"the {self.kind} name {name!r} is taken by {_place(self._members[name])}; "
                    "choose another name"
                )
            self._members[name] = member  # type: ignore[assignment]
            return member

        return decorate

    def __getitem__(self, name: str) -> Member:
        self.load()
        refuse_unknown(self.kind, name, self._members)
        return self._members[name]

    def __contains__(self, name: object) -> bool:
        self.load()
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        self.load()
        return iter(sorted(self._members))

    def __len__(self) -> int:
        self.load()
        return len(self._members)

    def load(self) -> None:
        """Import the members of the package and those that installed packages bring; does nothing again."""
        if self._loaded:
            return
        with _LOCK:  # other threads wait until all members are there
            if self._loaded or self._loading:  # loading: a member looks up others while it is imported
                return
            self._loading = True
            try:
                for module in iter_modules(import_module(self.package).__path__):
                    import_module(f"{self.package}.{module.name}")
                _load_installed()
                self._loaded = True
            finally:
                self._loading = False


def _place(member: object) -> str:
    """Where a class or function stands; another member says it itself."""
    name = getattr(member, "__qualname__", None)
    return f"{member.__module__}.{name}" if name else str(member)


def plugin_error(what: str, error: Exception, remedy: str) -> UserError:
    """An error, on one line, for somebody else's code that could not be loaded."""
    said = " ".join(str(error).split())
    return UserError(f"{what} cannot be loaded ({type(error).__name__}: {said}); {remedy}")


_loaded_entries: set[metadata.EntryPoint] = set()


def _load_installed() -> None:
    """Import what installed packages name in the entry-point group, each once."""
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        if entry in _loaded_entries:
            continue
        _loaded_entries.add(entry)
        try:
            entry.load()
        except Exception as error:  # somebody else's code may raise anything
            _loaded_entries.discard(entry)
            package = entry.dist.name if entry.dist else entry.module
            what = f"the plugin {entry.name!r} ({entry.value}) of the installed package {package!r}"
            raise plugin_error(what, error, f"mend it, or `pip uninstall {package}`") from error
