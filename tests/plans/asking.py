"""Every read of ``why`` once, and the boards that it reads; part of the workload whose plans are judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windlass.audit.record import AuditRecord
from windlass.control.actor import APPLICATION, EVERYTHING, Scope
from windlass.control.payload import Payload
from windlass.control.why.decide import decide
from windlass.control.why.ended import child_of
from windlass.control.why.facts import Facts
from windlass.features import Store
from windlass.handlers.registry import Registry
from windlass.model import After, JobLimit, NewJob
from windlass.model.rule import Rule
from windlass.store.jobs.holder import Holder

ANNA = Scope("own", "anna", None, "acme")
PAYLOAD = Payload(APPLICATION, lambda value: value, Registry())


def ask(store: Store, holder: Holder, n: int, pair: Rule) -> None:
    """Ask why jobs in all places of their life do not run, as an actor who sees all jobs and as one who sees few."""
    store.boards.put(holder.id, "{}")
    store.boards.sweep()
    queued = [_add(store, "asked") for _ in range(n)]
    waiting = _add(store, "asked", after=[After(job) for job in queued[:5]])
    limited = [_add(store, "gated", limits=[JobLimit(phase="gated", limit=3)]) for _ in range(5)]
    ended = _add(store, "left", args={"n": -1})
    holder.nudge("left")
    for lease in holder.claim("left", 1000):
        holder.complete(lease)
    holder.nudge("asked")
    holder.claim("asked", 1)
    for scope in (EVERYTHING, ANNA):
        for job in (queued[0], queued[-1], waiting, limited[-1], ended):
            decide(Facts(store, scope, PAYLOAD), job)
        facts = Facts(store, scope, PAYLOAD)
        assert facts.find(limited[-1])
        facts.job = replace(facts.job, gate="")
        facts.holders(""), facts.before_at_gate(), facts.before_by_rate(), facts.ahead(), facts.parents()
        facts.sees(queued[0])
    child_of(store, pair, [-1])
    for job in (queued[0], waiting):
        store.relations.read(job, EVERYTHING.parameters())
    record = AuditRecord(actor="app", act="phase.pause", target="phase", name="asked")
    store.db.transact(lambda tx: store.audit.write(tx, record))
    store.audit.list(), store.audit.list(target="phase", name="asked"), store.audit.list(target="phase")
    for scope in (ANNA, Scope("tenant", tenant="acme")):
        store.audit.list(scope=scope.parameters())
    store.boards.drop(holder.id)


def _add(store: Store, kind: str, **options: Any) -> str:
    (made,) = store.enqueue([NewJob(kind=kind, **options)])
    return made.id
