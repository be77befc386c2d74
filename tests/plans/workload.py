"""Every verb of the hot paths once, in batches, through the store's own calls."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from tests.conformance.life import BOOM
from tests.plans.acting import acts
from tests.plans.asking import ask
from windlass.features import Store
from windlass.idempotency.store import RequestKey
from windlass.model import (
    Advanced,
    After,
    Completed,
    Debounce,
    DependencyPolicy,
    Failed,
    Flow,
    JobLimit,
    Key,
    Lease,
    NewJob,
    Rate,
    Released,
    Retried,
    Want,
)
from windlass.model.principal import Principal
from windlass.model.rule import Rule
from windlass.store.ids import new_id, new_ids
from windlass.store.jobs.checked import check
from windlass.store.jobs.holder import Holder

PAIR = Rule(
    name="pair",
    parents=("left", "right"),
    create="joined",
    phase="joined",
    key=("args.n",),
    args={"n": "args.n"},
)
EACH = Rule(name="each", parents=("single",), create="child", phase="child", args={})


def define(store: Store) -> None:
    """What the jobs below are subject to."""
    store.rules.define([PAIR, EACH])
    store.limits.define(
        [
            Flow(phase="gated", limit=3),
            Flow(phase="slow", rate=Rate(1000.0, 1000)),
            Flow(phase="old", age=timedelta(hours=1)),
        ]
    )


def run(store: Store, n: int) -> None:
    """All of it, with batches of n."""
    holder = store.join(lease=timedelta(hours=1))
    life_of_a_plain_job(store, holder, n)
    a_pipeline(store, holder, n)
    dependencies(store, holder, n)
    batches(store, holder, n)
    keys_and_repeats(store, holder, n)
    limits(store, holder, n)
    expiries(store, holder, n)
    rules(store, holder, n)
    retries(store, holder, n)
    recovery(store, holder, n)
    acts(store, holder, n)
    duties(store, holder)
    ask(store, holder, n, PAIR)
    requests_of_the_api(store, n)
    holder.leave()


def requests_of_the_api(store: Store, n: int) -> None:
    """Requests with an API token and a key, each sent twice."""
    name = f"plans {new_id()}"
    made = store.tokens.create(name, roles=["submit"], created_by="app")
    assert made
    request = RequestKey(name, "once", "hash")
    for _ in range(2):
        store.tokens.verify(made.text)
        store.request_keys.submit(request, check([NewJob(kind="asked")] * n), lambda jobs: jobs[0].id)
    store.request_keys.prune()
    assert store.tokens.find(name)
    store.tokens.revoke(made.token.id)


def enqueue(store: Store, kind: str, n: int, **options: Any) -> list[str]:
    return [
        answer.id for answer in store.enqueue([NewJob(kind=kind, args={"n": i}, **options) for i in range(n)])
    ]


def claim(holder: Holder, phase: str, n: int) -> list[Lease]:
    holder.nudge(phase)
    leases = list(holder.claim(phase, n))
    assert len(leases) == n, (phase, len(leases), n)
    return leases


def life_of_a_plain_job(store: Store, holder: Holder, n: int) -> None:
    store.wait(["plain"], 60)
    enqueue(store, "many", 600)  # streamed
    enqueue(store, "plain", n)
    assert holder.look(["plain", "nothing"]) == {"plain"}
    leases = claim(holder, "plain", n)
    holder.start(leases)
    holder.record([Completed(lease, 1) for lease in leases])
    holder.record([Completed(lease, 1) for lease in leases])  # record.resolve
    ended = [lease.id for lease in leases]
    assert len(store.ends.of(ended)) == len(store.ends.present(ended)) == n
    store.ends.ask()
    store.ends.announce(ended)
    enqueue(store, "carried", n, headers={"traceparent": "00-1-2-01"})
    carried = claim(holder, "carried", n)
    assert store.headers.of(carried[0]) and len(store.headers.list([lease.id for lease in carried])) == n
    holder.record([Completed(lease, 1) for lease in carried])
    ids = enqueue(store, "later", n, delay=timedelta(milliseconds=1))
    promote(store, n)
    assert holder.claim_one(ids[0]) is not None
    holder.record([Released(lease, counted=True) for lease in claim(holder, "later", n - 1)])
    holder.record([Retried(lease, BOOM, timedelta(days=1)) for lease in claim(holder, "later", n - 1)])


def promote(store: Store, n: int) -> None:
    while n > 0:
        n -= sum(store.upkeep.promote().values())
        time.sleep(0.002)


def a_pipeline(store: Store, holder: Holder, n: int) -> None:
    enqueue(store, "pipe", n, principal=Principal("somebody"))
    leases = claim(holder, "pipe", n)
    for lease in leases[:2]:
        holder.checkpoint(lease, done=1, total=2, position=1)
        holder.checkpoint(lease, done=2, total=2, position=2)
        holder.put_output(lease, 1, name="side")
        store.jobs.progress(lease.id)
        store.outputs_of(lease)
        store.principals.get(lease.id)
    route = (("pipe", 3), ("pipe2", 3), ("pipe3", 3))
    holder.record([Advanced(lease, "pipe2", {"x": 1}, route=route) for lease in leases])
    leases = claim(holder, "pipe2", n)
    enqueue(store, "pipe4", n)
    ends = [Advanced(lease, "pipe3", {"x": 1}, route=route) for lease in leases]
    leases = list(holder.step(ends, Want("pipe3", n), Want("pipe4", n)).claimed)
    assert len(leases) == 2 * n
    holder.record([Completed(lease, 1, route=route[: 3 * (lease.phase == "pipe3")]) for lease in leases])


def dependencies(store: Store, holder: Holder, n: int) -> None:
    parents = enqueue(store, "parent", n)
    children: list[str] = []
    for policy in DependencyPolicy:
        jobs = [NewJob(kind="child", after=[After(parent, policy)]) for parent in parents]
        children += [answer.id for answer in store.enqueue(jobs)]
    store.dependencies.link()
    leases = claim(holder, "parent", n)
    holder.record([Completed(lease) if i % 2 else Failed(lease, BOOM) for i, lease in enumerate(leases)])
    store.dependencies.settle(1)
    store.dependencies.settle(1, parent=parents[-1])
    store.enqueue([NewJob(kind="child", after=[After(parent, DependencyPolicy.RUN)]) for parent in parents])
    store.dependencies.link()
    store.dependencies.of(parents[0])
    store.jobs.retry(parents[0], dependents=True)
    store.jobs.cancel(parents[0])
    holder.record([Completed(lease) for lease in claim(holder, "child", n)])


def batches(store: Store, holder: Holder, n: int) -> None:
    members, then = new_ids(n), new_id()
    after = [After(member, DependencyPolicy.RUN) for member in members]
    store.enqueue(
        [
            *(NewJob(kind="member", id=member) for member in members),
            NewJob(kind="then", id=then, after=after),
        ]
    )
    leases = claim(holder, "member", n)
    holder.record([Failed(lease, BOOM) for lease in leases[1:]])
    store.jobs.retry(leases[1].id)
    holder.record([Completed(lease, 1) for lease in (leases[0], *claim(holder, "member", 1))])
    (lease,) = claim(holder, "then", 1)
    store.parents.page(then)
    store.parents.count(then)
    store.jobs.retry(leases[1].id)
    store.parents.page(then)
    store.jobs.cancel(leases[1].id)
    holder.record([Completed(lease)])


def keys_and_repeats(store: Store, holder: Holder, n: int) -> None:
    jobs = [NewJob(kind="keyed", key=Key(f"{new_id()}")) for i in range(n)]
    store.enqueue(jobs)
    store.enqueue(jobs)
    again = [NewJob(kind="again", id=new_id()) for _ in range(n)]
    store.enqueue(again)
    store.enqueue(again)
    for _ in range(2):
        store.enqueue([NewJob(kind="bounced", debounce=Debounce("x", wait=60.0))])
    leases = claim(holder, "keyed", n)
    holder.record([Completed(lease) for lease in leases])
    store.jobs.get(leases[0].id)
    store.jobs.timeline(leases[0].id)
    store.jobs.attempts(leases[0].id)
    store.jobs.retry(leases[0].id)
    store.jobs.cancel(leases[0].id)


def limits(store: Store, holder: Holder, n: int) -> None:
    enqueue(store, "gated", n, limits=[JobLimit(phase="gated", key="one", limit=3)])
    enqueue(store, "slow", n, limits=[JobLimit(phase="slow", rate=Rate(1000.0, 1000))])
    store.limits.let_in()
    leases = claim(holder, "gated", 3)
    holder.record(
        [Completed(leases[0]), Failed(leases[1], BOOM), Retried(leases[2], BOOM, timedelta(days=1))]
    )
    (held,) = claim(holder, "gated", 1)
    store.db.transact(lambda tx: holder.fence(held).end(tx, Completed(held)))
    store.limits.assign()
    store.jobs.retry(leases[1].id)
    store.limits.let_in()
    store.limits.age()


def expiries(store: Store, holder: Holder, n: int) -> None:
    over = store.db.now() - timedelta(seconds=1)
    enqueue(store, "brief", n, expires=timedelta(hours=1))
    leases = claim(holder, "brief", n)
    assert len(holder.start(leases)) == n
    holder.record([Completed(lease, 1) for lease in leases])
    enqueue(store, "brief", n, expires=over)
    assert holder.start(claim(holder, "brief", n)) == set()
    ids = enqueue(store, "brief", n, expires=over)
    enqueue(store, "brief", n, expires=over, delay=timedelta(days=1))
    assert store.expiries.get(ids[0]) == over
    store.db.run(
        "enqueue.expiries", expiries=f'[{{"job":"{new_id()}","lasts":-1}}]'
    )  # of no job: expiry.stale
    assert store.expiries.cancel_due() == 2 * n


def rules(store: Store, holder: Holder, n: int) -> None:
    for kind in ("left", "right", "single"):
        enqueue(store, kind, n)
        leases = claim(holder, kind, n)
        holder.record([Failed(leases[0], BOOM), *(Completed(lease) for lease in leases[1:])])
        store.jobs.retry(leases[0].id)
        holder.record([Completed(lease) for lease in claim(holder, kind, 1)])


def retries(store: Store, holder: Holder, n: int) -> None:
    enqueue(store, "tried", n)
    leases = claim(holder, "tried", n)
    for lease in leases[:1]:
        store.jobs.cancel(lease.id)
    holder.cancels()
    store.upkeep.make_due(enqueue(store, "later", 1, delay=timedelta(days=1))[0])
    holder.record([Retried(lease, BOOM, timedelta(0)) for lease in leases])
    promote(store, n - 1)


def recovery(store: Store, holder: Holder, n: int) -> None:
    enqueue(store, "lost", n)
    dead = store.join(lease=timedelta(microseconds=1))
    leases = claim(dead, "lost", n)
    dead.put_output(leases[0], 1, next_phase="lost2")
    dead.start(leases[: n // 2])
    found: Sequence[object] = ()
    while not found:
        found = store.recovery.recover()
    enqueue(store, "probed", 1)
    claim(store.join(lease=timedelta(microseconds=1)), "probed", 1)
    found = ()
    while not found:
        found = store.recovery.recover(holder=holder, probed=["probed"])
    store.recovery.sweep_orphans(limit=n)


def duties(store: Store, holder: Holder) -> None:
    enqueue(store, "unknown", 3)
    holder.claim("unknown", 3)
    holder._left.clear()
    holder.beat(unknown_grace=timedelta(0))
    store.upkeep.agenda()
    store.upkeep.fold(limit=100)
