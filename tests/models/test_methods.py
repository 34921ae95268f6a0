"""What methods say about themselves, the list of all, and what cannot be combined."""

import pytest
from torch import nn

from fewset.core.errors import UserError
from fewset.models.about import About, about_of
from fewset.models.adapters import ADAPTERS
from fewset.models.adapters.attention import Attention
from fewset.models.adapters.identity import Identity
from fewset.models.heads import HEADS
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.methods import list_methods
from fewset.models.model import FewShotModel


def test_every_registered_member_is_listed_and_maml_too() -> None:
    listed = [(part, name) for part, name, _ in list_methods()]
    adapters, heads = [("model.adapter", name) for name in ADAPTERS], [("model.head", name) for name in HEADS]
    assert listed == [*adapters, *heads, ("model", "maml")]


def test_needs_are_told_in_words() -> None:
    said = About("a test", "nobody", every_shot=True, fitted=True, trained=True, alone="it is proud")
    needs = ("embeddings", 'average = "post"', "features of the train split", "training", "no adapter")
    assert said.needs() == needs
    assert About(takes="images").needs() == ("images",)


def test_a_member_that_says_nothing_is_told_by_its_docstring() -> None:
    class Stranger:
        """Somebody's own head.

        With more to say.
        """

        def fit(self) -> None: ...

    assert about_of(Stranger) == about_of(Stranger()) == About("Somebody's own head.", fitted=True)


class Proud(PrototypeHead):
    about = About("a head for itself", "nobody", alone="it compares what the backbone gave")


def test_a_head_that_follows_no_adapter_says_so() -> None:
    with pytest.raises(UserError, match=r"Proud cannot follow an adapter: it compares .* 'identity' or"):
        FewShotModel(nn.Identity(), Attention(7), Proud(7))
    assert isinstance(FewShotModel(nn.Identity(), Identity(7), Proud(7)).head, Proud)
