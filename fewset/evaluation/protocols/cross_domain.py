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
from fewset.evaluation.protocols import Job, Outcome, Pool, Protocol, option, register_protocol
from fewset.evaluation.protocols.standard import score_pool
from fewset.tasks.sampling import ClassIndex


@register_protocol("cross-domain")
@dataclass(frozen=True)
class CrossDomain(Protocol):
    """Shots of one domain, queries of the same or another."""

    support_domain: str | None = option(None, "Where the labelled items are from.")
    query_domain: str | None = option(None, "Where the queries are from.")

    fixed: ClassVar = {"domain": "cross-domain has two domains: give --support-domain and --query-domain"}

    @property
    def label(self) -> str:
        return ""  # the domains are in the result's own field

    def check(self, job: Job) -> None:
        self._pool(job)

    def evaluate(self, job: Job) -> Outcome:
        outcome = score_pool(job, self._pool(job))
        domains = f"{self.support_domain}→{self.query_domain}"
        return replace(outcome, replaced={"domain": domains}, notes={"domains": domains.replace("→", " → ")})

    def _pool(self, job: Job) -> Pool:
        if self.support_domain is None or self.query_domain is None:
            domains = ", ".join(job.images.domain_names) or "none"
            raise UserError(
                "the setting cross-domain needs --support-domain and --query-domain; "
                f"domains of {job.images.name!r}: {domains}"
            )
        pool = cross_domains(job.images, job.split, self.support_domain, self.query_domain)
        return pool.checked(job.spec, job.skip_small_classes)


def cross_domains(images: ImageSet, split: str, support: str, query: str) -> Pool:
    """Tasks whose support is from one domain of a set and whose queries are from another, or from the same.

    No query has the origin of a shot: a sketch and the photo it was traced from are never in one task. With
    one domain the tasks are those of the standard setting.
    """
    supports, queries = (images.select(split, domain).rows for domain in (support, query))
    rows = np.union1d(supports, queries)
    if support == query:
        return Pool(rows, ClassIndex(images.labels[rows], images.class_names, nearest=images.nearest))
    index = ClassIndex(
        images.labels[rows],
        images.class_names,
        origins=None if images.origins is None else images.origins[rows],
        support=np.isin(rows, supports),
        query=np.isin(rows, queries),
        nearest=images.nearest,
    )
    return Pool(rows, index)
