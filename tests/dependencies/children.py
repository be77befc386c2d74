"""Jobs with parents, and the ends of a parent."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.life import (
    BOOM,
    claim_one,
    one,
)
from windlass.features import Store
from windlass.model import After, DependencyPolicy
from windlass.store.jobs.holder import Holder

ENDS: dict[str, Callable[[Holder, Store, str], object]] = {
    "completed": lambda holder, store, phase: holder.complete(claim_one(holder, phase)),
    "failed": lambda holder, store, phase: holder.fail(claim_one(holder, phase), BOOM),
    "cancelled": lambda holder, store, phase: holder.cancel(claim_one(holder, phase)),
}


def child(
    store: Store, parents: list[str], policy: DependencyPolicy = DependencyPolicy.CANCEL, **options
) -> str:
    return one(store, "child", after=[After(parent, policy) for parent in parents], **options)
