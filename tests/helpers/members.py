"""Members that are registered for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fewset.core.registry import Registry
from fewset.experiments import plugins


@contextmanager
def private_members() -> Iterator[None]:
    """What is registered within is gone afterwards, whether by a plugin or not."""
    with pytest.MonkeyPatch.context() as patch:
        for registry in Registry.kinds.values():
            len(registry)  # its own members are loaded for good
            patch.setattr(registry, "_members", dict(registry._members))
        patch.setattr(plugins, "_loaded", set(plugins._loaded))
        yield
