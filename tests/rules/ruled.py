"""What the tests of rules have in common: rules, ends of parents, and the children that come of them."""

from __future__ import annotations

from typing import Any

from tests.conformance.life import (
    BOOM,
    claim_one,
    every_job,
    one,
)
from windlass.features import Store
from windlass.model import (
    DependencyPolicy,
    Job,
)
from windlass.model.rule import Rule
from windlass.store.jobs.holder import Holder

CANCEL, WAIT, RUN = DependencyPolicy.CANCEL, DependencyPolicy.WAIT, DependencyPolicy.RUN
KEY = ("args.period",)


def when(store: Store, *parents: str, create: str = "child", **options: Any) -> Rule:
    """Define a rule, and only that; live jobs of its kinds are flagged."""
    key = options.pop("key", KEY if len(parents) > 1 else ())
    args = options.pop("args", {"period": "args.period"} if key else {"*": "args"})
    name = options.pop("name", f"{'+'.join(parents)}->{create}")
    rule = Rule(name=name, parents=parents, create=create, phase=create, key=key, args=args, **options)
    return store.rules.put(rule).rule


def end(holder: Holder, phase: str, how: str = "completed", result: Any = None) -> str:
    """Claim the oldest job of a phase and end it."""
    lease = claim_one(holder, phase)
    match how:
        case "completed":
            holder.complete(lease, result)
        case "failed":
            holder.fail(lease, BOOM)
        case _:
            holder.cancel(lease)
    return lease.id


def children(store: Store, kind: str = "child") -> list[Job]:
    return sorted(every_job(store, kind=kind), key=lambda job: job.id)


def period(store: Store, kind: str, value: Any = "07", **options: Any) -> str:
    return one(store, kind, args={"period": value}, **options)
