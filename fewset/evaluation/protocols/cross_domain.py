"""Few-shot domain generalisation: labelled items from one domain, queries from the same or another.

Section 5.3.1 of the paper and supplement D.3. A model is trained on tasks within one domain only, support
and queries alike ("trained on tasks from the Clipart domain"); no task of the training crosses domains.
Then it is scored on tasks of new classes, aligned between the domains: C→C, C→R (support from Clipart,
queries from Real World) and R→R (both from the domain that was not trained on).
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fewset.core.errors import UserError
from fewset.data.images.store import ImageSet
from fewset.evaluation.protocols import Job, Outcome, Protocol, option, register_protocol
from fewset.evaluation.protocols.standard import score_items
from fewset.tasks.items import Items


@register_protocol("cross-domain")
@dataclass(frozen=True)
class CrossDomain(Protocol):
    """Shots of one domain, queries of the same or another."""

    support_domain: str | None = option(None, "Where the labelled items are from.")
    query_domain: str | None = option(None, "Where the queries are from.")

    takes: ClassVar = "images"
    fixed: ClassVar = {"domain": "cross-domain has two domains: give --support-domain and --query-domain"}

    @property
    def label(self) -> str:
        return ""  # the domains are in the result's own field

    def prepare(self, job: Job) -> Items:
        if self.support_domain is None or self.query_domain is None:
            domains = ", ".join(job.images.domain_names) or "none"
            raise UserError(
                "the setting cross-domain needs --support-domain and --query-domain; "
                f"domains of {job.images.name!r}: {domains}"
            )
        items = cross_domains(job.images, job.split, self.support_domain, self.query_domain)
        return items.drawable(job.spec, job.skip_small_classes)

    def evaluate(self, job: Job, items: Items) -> Outcome:
        outcome = score_items(job, items)
        domains = f"{self.support_domain}→{self.query_domain}"
        return replace(outcome, replaced={"domain": domains}, notes={"domains": domains.replace("→", " → ")})


def cross_domains(images: ImageSet, split: str, support: str, query: str) -> Items:
    """Tasks whose support is from one domain of a set and whose queries are from another, or from the same.

    No query has the origin of a shot: a sketch and the photo it was traced from are never in one task. With
    one domain the tasks are those of the standard setting.
    """
    supports, queries = (images.select(split, domain).rows for domain in (support, query))
    rows = np.union1d(supports, queries)
    items = Items(rows, images.labels[rows], images.class_names, nearest=images.nearest)
    if support == query:
        return items
    return replace(
        items,
        origins=None if images.origins is None else images.origins[rows],
        support=np.isin(rows, supports),
        query=np.isin(rows, queries),
    )
