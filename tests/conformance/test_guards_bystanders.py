"""What is done to one job changes no row of any other: every verb, beside a crowd of jobs in every state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from unittest.mock import ANY

import pytest

from tests.conformance.bystanders import Crowd, prefix, rows, rows_without
from tests.conformance.life import BOOM, LEASE, assert_counts_are_true, claim_one, one, state
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import (
    After,
    Completed,
    DependencyPolicy,
    Failed,
    Key,
    KeyScope,
    Lease,
    NewJob,
    Retention,
    State,
    Verdict,
)
from windlass.store.ids import new_id
from windlass.store.jobs.holder import Holder

pytestmark = pytest.mark.usefixtures("crowd")


@contextmanager
def nobody_else(store: Store, *about: str) -> Iterator[list[str]]:
    """Inside, only rows that mention these ids may change; ids that come into being inside may be added."""
    known = list(about)
    before = rows_without(store)
    yield known
    after = rows_without(store, *known)
    assert after == [row for row in before if not any(name in row for name in known)]
    assert_counts_are_true(store)


def rich(store: Store, holder: Holder, phase: str = "s") -> Lease:
    """A held job with all the side rows a job can have: key, outputs, checkpoint, an attempt, a child."""
    job_id = one(store, phase, phase=f"{phase}.first", key=Key(phase), max_attempts=9)
    child = one(store, "s.child", after=[After(job_id, DependencyPolicy.WAIT)])
    store.dependencies.link()
    assert state(store, child) is State.WAITING
    holder.advance(claim_one(holder, f"{phase}.first"), phase, "first", max_attempts=9)
    lease = claim_one(holder, phase)
    holder.checkpoint(lease, done=1, total=2, position="mine")
    holder.put_output(lease, "mine", name="side")
    return lease


def family(store: Store, job_id: str) -> list[str]:
    return [job_id, *(edge.child for edge in store.dependencies.of(job_id))]


OUTCOMES: dict[str, Callable[[Holder, Lease], object]] = {
    "complete": lambda holder, lease: holder.complete(lease, "done"),
    "fail": lambda holder, lease: holder.fail(lease, BOOM),
    "cancel": lambda holder, lease: holder.cancel(lease),
    "retry later": lambda holder, lease: holder.retry_later(lease, BOOM, timedelta(hours=1)),
    "advance": lambda holder, lease: holder.advance(lease, "next", "out"),
    "release": lambda holder, lease: holder.release(lease),
    "release, counted": lambda holder, lease: holder.release(lease, counted=True),
    "start": lambda holder, lease: holder.start([lease]),
    "checkpoint": lambda holder, lease: holder.checkpoint(lease, done=2),
    "output": lambda holder, lease: holder.put_output(lease, "x", name="x"),
}


def test_what_a_holder_writes_is_about_its_job_alone(store: Store) -> None:
    """The neighbour of the same claim, under the same token, included."""
    for number, write in enumerate(OUTCOMES.values()):
        holder = store.join()
        for lease in (rich(store, holder, f"s{number}"), _two_of_one_claim(store, holder)[0]):
            with nobody_else(store, *family(store, lease.id), holder.id):
                write(holder, lease)


def test_the_end_of_a_job_takes_along_what_is_its_own(store: Store) -> None:
    """Outputs, progress, key and attempts of others stay out of its history, and its own are gone from their tables."""
    holder = store.join()
    plain, _ = _two_of_one_claim(store, holder)
    store.jobs.cancel(plain.id)
    lease = rich(store, holder)
    # The long way for both: a release that was asked to stop, and a rich job.
    holder.release(plain)
    holder.complete(lease)
    empty, full = store.jobs.get(plain.id), store.jobs.get(lease.id)
    assert (list(empty.outputs), empty.progress, store.jobs.attempts(plain.id)) == ([], None, [])
    assert {(output.phase, output.name, output.value) for output in full.outputs} == {
        ("s.first", "", "first"),
        ("s", "side", "mine"),
    }
    assert full.progress is not None and full.progress.position == "mine"
    keys = {row["id"]: row["key"] for row in rows(store, "job_done")}
    assert (keys[plain.id], keys[lease.id]) == (None, "s:s")
    for table in ("output", "checkpoint", "job_key"):
        assert lease.id not in [str(row["job"]) for row in rows(store, table)]


@pytest.mark.parametrize(
    ("place", "shape"),
    [
        ("queued", "rich"),
        ("scheduled", "rich"),
        ("held", "rich"),
        ("queued", "plain"),
        ("scheduled", "plain"),
    ],
)
def test_a_cancel_is_about_one_job(store: Store, place: str, shape: str) -> None:
    """And what it moves to history is its own."""
    holder = store.join()
    lease = rich(store, holder) if shape == "rich" else _two_of_one_claim(store, holder)[0]
    if place == "queued":
        holder.release(lease)
    elif place == "scheduled":
        holder.retry_later(lease, BOOM, timedelta(hours=1))
    with nobody_else(store, *family(store, lease.id)):
        store.jobs.cancel(lease.id)
    if place == "held":
        return
    job = store.jobs.get(lease.id)
    (row,) = (row for row in rows(store, "job_done") if str(row["id"]) == lease.id)
    if shape == "plain":
        assert (list(job.outputs), job.progress, row["key"]) == ([], None, None)
    else:
        assert {output.value for output in job.outputs} == {"first", "mine"}
        assert job.progress is not None and job.progress.position == "mine" and row["key"] == "s:s"


@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
def test_a_retry_by_hand_is_about_one_job(store: Store, end: str) -> None:
    holder = store.join()
    for lease in (rich(store, holder), _two_of_one_claim(store, holder)[0]):
        about = family(store, lease.id)
        OUTCOMES[end](holder, lease)
        with nobody_else(store, *about):
            store.jobs.retry(lease.id)
        assert state(store, lease.id) is State.QUEUED


def test_a_retry_with_dependents_is_about_ones_own_graph(store: Store) -> None:
    """Beside a graph of the same shape that failed in the same way, and one that was retried without its child."""
    holder = store.join()
    graphs = []
    alone = one(store, "alone")
    left = one(store, "alone.child", after=[After(alone)])
    store.dependencies.link()
    holder.fail(claim_one(holder, "alone"), BOOM)
    store.jobs.retry(alone)
    assert state(store, left) is State.CANCELLED
    for name in ("mine", "other"):
        parent = one(store, name)
        child = one(store, f"{name}.child", after=[After(parent)], key=Key(name))
        graphs.append([parent, child, one(store, f"{name}.grandchild", after=[After(child)])])
        while store.dependencies.link():
            pass
        holder.fail(claim_one(holder, name), BOOM)
    with nobody_else(store, *graphs[0]):
        store.jobs.retry(graphs[0][0], dependents=True)
    assert [str(state(store, job)) for job in graphs[0]] == ["queued", "waiting", "waiting"]


def test_an_enqueue_is_about_its_own_jobs(store: Store, crowd: Crowd, clock: ManualClock) -> None:
    """With keys of the same names as others', with parents, repeated, delayed and through the inbox."""
    given = new_id()
    with nobody_else(store) as about:
        about += [
            answer.id for answer in store.enqueue([NewJob(kind="s"), NewJob(kind="s", delay=timedelta(1))])
        ]
        about.append(one(store, "s", key=Key("queued")))
        about.append(one(store, "s", key=Key("queued", KeyScope.IDEMPOTENT)))
        about.append(one(store, "s", id=given))
        assert not store.enqueue([NewJob(kind="s", id=given)])[0].created
        about.append(one(store, "s", after=[After(crowd.ids["queued"])]))
        with store.db.effect(5) as tx:
            about.append(store.enqueuer.enqueue_in(tx, [NewJob(kind="s")])[0].id)
    assert len(store.join().claim("s", 10)) == 4


def test_dependencies_are_settled_for_ones_own_children(store: Store, crowd: Crowd) -> None:
    """Linked to a queued, a scheduled and an ended parent; then the parents end."""
    ids = ["", "", ""]
    holder = store.join()
    ids[2] = one(store, "s.ended")
    holder.complete(claim_one(holder, "s.ended"))
    ids[0], ids[1] = one(store, "s.queued"), one(store, "s.later", delay=timedelta(hours=1))
    pick = "UPDATE {p}job_later SET reason = 'waiting' WHERE id = '{id}'"  # keep the crowd's own unlinked child out
    with store.db.effect(5) as tx:
        tx.connection.execute(pick.format(p=prefix(store), id=crowd.ids["unlinked"]))
    with nobody_else(store, *ids) as about:
        about += [one(store, "s.child", after=[After(parent, DependencyPolicy.RUN)]) for parent in ids]
        assert store.dependencies.link() == 3
        assert [str(state(store, child)) for child in about[3:]] == ["waiting", "waiting", "queued"]
    both = one(store, "s.both", after=[After(ids[0]), After(ids[1], DependencyPolicy.WAIT)])
    late = one(store, "s.late", after=[After(ids[0])], delay=timedelta(hours=2))
    store.dependencies.link()
    with nobody_else(store, *about, both, late, holder.id):
        holder.complete(claim_one(holder, "s.queued"))
    assert [str(state(store, child)) for child in (about[3], both, late)] == [
        "queued",
        "waiting",
        "scheduled",
    ]
    with nobody_else(store, *about, both):
        store.jobs.cancel(ids[1])
    assert [str(state(store, child)) for child in (about[4], both)] == ["queued", "waiting"]
    with nobody_else(store, ids[1], both):
        store.jobs.retry(ids[1])
    assert {edge.parent: edge.parent_state for edge in store.dependencies.of(both)} == {
        ids[0]: State.COMPLETED,
        ids[1]: None,
    }


def test_a_claim_is_about_one_phase_and_one_instance(store: Store) -> None:
    holder = store.join()
    first, second = one(store, "s"), one(store, "s")
    with nobody_else(store, first, second, holder.id):
        leases = holder.claim("s", 5)
    assert {lease.id for lease in leases} == {first, second}
    with nobody_else(store, holder.id, first, second):
        holder.record([Completed(leases[0]), Failed(leases[1], BOOM)])
        assert not holder.claim("s", 5)
    assert [row for row in rows(store, "claim") if str(row["instance"]) == holder.id] == []


def test_a_living_instance_speaks_for_itself_alone(store: Store, crowd: Crowd, clock: ManualClock) -> None:
    holder = store.join(lease=LEASE)
    lease = rich(store, holder)
    clock.advance(10)
    with nobody_else(store, holder.id):
        beat = holder.beat()
    assert (beat.cancelled, beat.released) == ([], 0)
    assert crowd.keeper.beat().cancelled == [(crowd.ids["held"], ANY)]
    holder.release(lease)
    with nobody_else(store, holder.id):
        holder.leave()
    assert holder.id not in [instance.id for instance in store.instances.list()]


def test_the_dead_are_recovered_and_the_living_left_alone(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    dying, asker = opened().join(lease=LEASE), store.join(lease=timedelta(days=20))
    lease, (left, _), probed = rich(store, dying), _two_of_one_claim(store, dying), rich(store, dying, "p")
    about = [*family(store, lease.id), *family(store, probed.id), left.id, dying.id, asker.id]
    neighbour = next(iter(dying._left[left.token] - {left.id}))
    dying.record([Completed(left)])
    clock.advance(LEASE + timedelta(seconds=1))
    with nobody_else(store, *about, neighbour):
        recovered = {item.job_id: item for item in store.recovery.recover(holder=asker, probed=["p"])}
    assert {recovered[i].verdict for i in (lease.id, neighbour)} == {"released"}
    taken = recovered[probed.id].lease
    assert asker.complete(taken) is Verdict.RECORDED
    with nobody_else(store, dying.id, asker.id):
        asker.step()
        clock.advance(timedelta(hours=2))
        store.recovery.recover()
    assert dying.id not in [instance.id for instance in store.instances.list()]
    with nobody_else(store):
        for _ in range(10):
            assert store.recovery.sweep_orphans(limit=3) == []


def test_upkeep_is_about_what_is_due(store: Store, crowd: Crowd, clock: ManualClock) -> None:
    soon, ended = one(store, "s", delay=timedelta(seconds=5)), one(store, "s.end")
    key = one(store, "s.keyed", key=Key("s", KeyScope.IDEMPOTENT, lasts=timedelta(seconds=1)))
    clock.advance(timedelta(days=2))
    holder = store.join(lease=timedelta(days=20))
    holder.complete(claim_one(holder, "s.end"))
    with nobody_else(store, soon):
        assert store.upkeep.promote() == {"s": 1}
    clock.advance(1)
    with nobody_else(store, ended, key, crowd.ids["completed"], crowd.ids["last"]):
        assert store.upkeep.prune(Retention(completed=timedelta(0), failed=None, cancelled=None)) == 3
    assert key not in [str(row["job"]) for row in rows(store, "job_key")]
    with nobody_else(store):
        store.phases.pause("s", "why")
        assert store.phases.resume("s") is True
        store.upkeep.fold()


def test_what_is_read_of_a_job_is_its_own(store: Store, crowd: Crowd) -> None:
    for name in ("held", "released", "retrying"):
        values = [f"first of {name}", f"side of {name}"]
        assert sorted(output.value for output in store.outputs.of(crowd.ids[name])) == values
        assert sorted(output.value for output in store.jobs.get(crowd.ids[name]).outputs) == values
        progress = store.jobs.progress(crowd.ids[name])
        assert progress is not None and progress.position == name
    for name, job_id in crowd.ids.items():
        assert store.jobs.get(job_id).id == job_id
        assert all(job_id in (edge.parent, edge.child) for edge in store.dependencies.of(job_id)), name
        attempts = [attempt.outcome for attempt in store.jobs.attempts(job_id)]
        assert attempts == {
            "released": ["advanced", "recovered"],
            "retrying": ["advanced", "retried"],
            "limited, retrying": ["retried"],
        }.get(name, ["advanced"] if name in ("held", "failed", "cancelled", "completed") else [])
    assert [len(store.dependencies.of(crowd.ids[name])) for name in ("parent", "unlinked", "queued")] == [
        4,
        2,
        0,
    ]
    assert sorted(pause.phase for pause in store.phases.paused()) == ["crowd.later", "crowd.queued"]


def _two_of_one_claim(store: Store, holder: Holder) -> tuple[Lease, Lease]:
    """Two held jobs under one token."""
    store.enqueue([NewJob(kind="two"), NewJob(kind="two")])
    first, second = holder.claim("two", 2)
    assert first.token == second.token
    return first, second
