"""A crowd of jobs in every state and of every shape, whose rows no verb about another job may touch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg.types.string import TextLoader

from tests.conformance.life import BOOM, claim_one, one
from windlass.features import Store
from windlass.model import (
    After,
    Debounce,
    DependencyPolicy,
    Flow,
    JobLimit,
    Key,
    KeyScope,
    NewJob,
    Rate,
    Rollup,
    Throttle,
)
from windlass.model.principal import Principal
from windlass.store.jobs.holder import Holder

TABLES = (
    "job",
    "job_later",
    "job_done",
    "claim",
    "instance",
    "output",
    "checkpoint",
    "attempt",
    "job_key",
    "job_dep",
    "phase",
    "rollup",
    "principal",
    "flow",
    "gate",
    "job_limit",
)
LONG = timedelta(days=20)
ASKER = Principal("crowd", roles={"see"})


@dataclass(frozen=True)
class Crowd:
    """Jobs by what they are, and who holds the held ones."""

    keeper: Holder
    ids: dict[str, str]


def rows(store: Store, table: str, where: str = "TRUE") -> list[dict[str, Any]]:
    """The rows of a table, as the database has them; ids and JSON as text."""
    with store.db.effect(5) as tx:
        cursor = tx.connection.cursor()
        if store.db.dialect == "postgres":
            cursor.execute("SET LOCAL datestyle = ISO")  # the driver reads no other times
            cursor.execute("SET LOCAL intervalstyle = postgres")
            for kind in ("uuid", "json", "jsonb"):
                cursor.adapters.register_loader(kind, TextLoader)
        cursor.execute(f"SELECT * FROM {prefix(store)}{table} WHERE {where}")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def prefix(store: Store) -> str:
    return "windlass_" if store.db.dialect == "sqlite" else "windlass."


def execute(store: Store, text: str) -> None:
    """Execute a statement that no verb of the store would; ``{p}`` is the prefix of the tables."""
    with store.db.effect(5) as tx:
        tx.connection.execute(text.format(p=prefix(store)))


def rows_without(store: Store, *ids: str) -> list[str]:
    """Every row of every table that mentions none of these ids; counts apart, which are compared as sums."""
    texts = [f"{table} {row}" for table in TABLES for row in rows(store, table)]
    return sorted(text for text in texts if not any(name in text for name in ids))


def gather(store: Store, other: Store) -> Crowd:
    """Bring a job into every state, each with all the side rows it can have. ``other`` is another instance's store."""
    keeper, _idle = other.join(lease=LONG), other.join(lease=LONG)
    ids: dict[str, str] = {}
    ids["parent"] = one(store, "crowd.parent", key=Key("parent"))
    ids["ended parent"] = one(store, "crowd.ended", max_attempts=1)
    keeper.fail(claim_one(keeper, "crowd.ended"), BOOM)
    for policy in DependencyPolicy:
        ids[f"waits to {policy}"] = one(
            store, "crowd.child", after=[After(ids["parent"], policy)], key=Key(policy)
        )
    ids["left waiting"] = one(store, "crowd.child", after=[After(ids["ended parent"], DependencyPolicy.WAIT)])
    ids["has run"] = one(store, "crowd.ran", after=[After(ids["ended parent"], DependencyPolicy.RUN)])
    while store.dependencies.link():
        pass
    ids["unlinked"] = one(store, "crowd.child", after=[After(ids["parent"]), After(ids["waits to run"])])
    ids["queued"] = one(store, "crowd.queued", key=Key("queued"), priority=3)
    ids["scheduled"] = one(store, "crowd.later", delay=LONG)
    for name in ("held", "released", "retrying", "failed", "cancelled", "completed"):
        phase = f"crowd.{name}"
        ids[name] = one(store, phase, key=Key(name), phase=f"{phase}.first", max_attempts=9, principal=ASKER)
        keeper.advance(claim_one(keeper, f"{phase}.first"), phase, f"first of {name}", max_attempts=9)
        lease = claim_one(keeper, phase)
        keeper.checkpoint(lease, done=3, total=9, position=name)
        keeper.put_output(lease, f"side of {name}", name="side")
        match name:
            case "released":
                keeper.release(lease, counted=True)
            case "retrying":
                keeper.retry_later(lease, BOOM, LONG)
            case "failed":
                keeper.fail(lease, BOOM)
            case "cancelled":
                keeper.cancel(lease)
            case "completed":
                keeper.complete(lease, name)
    one(store, "crowd.held2")
    ids["last"] = one(store, "crowd.last")
    keeper.claim("crowd.held2", 1)
    keeper.complete(claim_one(keeper, "crowd.last"))  # its claim row is empty and still there
    store.jobs.cancel(ids["held"])
    with store.db.effect(5) as tx:
        inbox = NewJob(kind="crowd.inbox", delay=LONG, key=Key("inbox", KeyScope.IDEMPOTENT, lasts=LONG))
        ids["inbox"] = store.enqueuer.enqueue_in(tx, [inbox])[0].id
    ids["keyed"] = one(store, "crowd.keyed", key=Key("k", KeyScope.IDEMPOTENT, lasts=LONG))
    _gather_limited(store, keeper, ids)
    store.phases.pause("crowd.queued", "for ever")
    store.phases.pause("crowd.later", "for long", lasts=LONG)
    minute = store.now().replace(second=0, microsecond=0)
    store.rollups.put(keeper.id, [Rollup(minute=minute, phase="crowd.held", completed=1)])
    return Crowd(keeper, ids)


def _gather_limited(store: Store, keeper: Holder, ids: dict[str, str]) -> None:
    """Jobs with limits: held, queued, at a gate, waiting for a rate, being retried, ended, not looked at yet, debounced."""
    slow = Rate(0.001, 1)
    store.limits.define([Flow(phase="crowd.both", limit=2, rate=slow, age=LONG)])

    def limited(name: str, phase: str, rate: Rate | None = None, **options: Any) -> None:
        limits = [JobLimit(phase=phase, key="k", limit=2, rate=rate)]
        ids[name] = one(store, phase, limits=limits, max_attempts=9, **options)

    for name in (
        "limited, failed",
        "limited, retrying",
        "limited, held",
        "limited, queued",
        "limited, waiting",
    ):
        limited(name, "crowd.limited")
        store.limits.assign()
        if name == "limited, failed":
            keeper.fail(claim_one(keeper, "crowd.limited"), BOOM)
        elif name == "limited, retrying":
            keeper.retry_later(claim_one(keeper, "crowd.limited"), BOOM, LONG)
        elif name == "limited, held":
            keeper.claim("crowd.limited", 1)
    for name in ("both, queued", "both, paced", "both, limited"):
        limited(name, "crowd.both", slow)
        store.limits.let_in()
    ids["debounced"] = one(store, "crowd.limited", debounce=Debounce("d", LONG))
    ids["throttled"] = one(store, "crowd.throttled", throttle=Throttle("t", LONG))
    limited("parked", "crowd.limited")
