"""Rules, the ends of their parents, and their rows."""

from __future__ import annotations

from typing import Any

from tests.conformance.bystanders import rows
from tests.conformance.life import BOOM, claim_one, one
from windlass.features import Store
from windlass.model import DependencyPolicy
from windlass.model.rule import Rule
from windlass.store.jobs.holder import Holder

PAIR = Rule(
    name="pair",
    parents=("a", "b"),
    create="child",
    phase="child",
    key=("args.k",),
    args={"n": ("a", "args.n")},
)
EACH = Rule(name="each", parents=("a",), create="child", phase="child", args={}, policy=DependencyPolicy.WAIT)


def job(store: Store, kind: str, k: Any = 1, n: int = 0, **options: Any) -> str:
    return one(store, kind, args={"k": k, "n": n}, **options)


def end(holder: Holder, phase: str, *, fails: bool = False) -> str:
    lease = claim_one(holder, phase)
    if fails:
        holder.fail(lease, BOOM)
    else:
        holder.complete(lease)
    return lease.id


def hits(store: Store, **only: Any) -> list[dict[str, Any]]:
    found = rows(store, "rule_hit")
    return [row for row in found if all(row[name] == value for name, value in only.items())]
