"""Members of a kind by name: adapters, heads, backbones, encoders, protocols and importers alike.

Each kind has one `Registry`, in the `__init__` of the package of its members. The first lookup imports them,
and the installed packages in the entry-point group `fewset.plugins`.
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
    """The members of one kind, by name; an unknown name raises a `UserError` that suggests another."""

    kinds: "dict[str, Registry[Any]]" = {}  # noqa: RUF012 - one for the whole program

    def __init__(self, kind: str, package: str) -> None:
        self.kind, self.package = kind, package
        self._members: dict[str, Member] = {}
        self._loaded = self._loading = False
        Registry.kinds[kind] = self

    def register(self, name: str) -> Callable[[Registered], Registered]:
        """A decorator that registers a class or function under `name`, which must be free."""

        def decorate(member: Registered) -> Registered:
            if name in self._members:
                raise UserError(
                    f"the {self.kind} name {name!r} is taken by {_place(self._members[name])}; choose another"
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
        """Import the members of the package and of installed packages, once."""
        if self._loaded:
            return
        with _LOCK:  # other threads wait until all members are there
            if self._loading or self._loaded:  # loading: a member looks up others while it is imported
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
    """The place of a class or function in the source; other members describe themselves."""
    name = getattr(member, "__qualname__", None)
    return f"{member.__module__}.{name}" if name else str(member)


def plugin_error(what: str, error: Exception, remedy: str) -> UserError:
    """An error, on one line, for code of others that could not be loaded."""
    said = " ".join(str(error).split())
    return UserError(f"{what} cannot be loaded ({type(error).__name__}: {said}); {remedy}")


def _load_installed() -> None:
    """Import the modules that installed packages name in the entry-point group."""
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        try:
            entry.load()
        except Exception as error:  # code of others may raise anything
            package = entry.dist.name if entry.dist else entry.module
            what = f"the plugin {entry.name!r} ({entry.value}) of the installed package {package!r}"
            raise plugin_error(what, error, f"fix it, or `pip uninstall {package}`") from error
