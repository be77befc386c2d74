"""Row locks, one by one: what a verb picks stays locked, what others hold it leaves out, many rows it locks in one order.

Each lock of the .sql files has a test here that fails without it (``./dev mutate-sql --kind "*lock*"``). SQLite has one
writer at a time and no row locks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.interleavings.sessions import (
    Open,
    Waiting,
    claim,
    enqueue,
    until_blocked,
    user_transaction,
)
from tests.waiting import eventually
from windlass.features import Store
from windlass.model import After, DependencyPolicy, Lease, NewJob, Retention, State
from windlass.store.ids import SMALLEST, new_id
from windlass.store.jobs.holder import Holder

pytestmark = pytest.mark.timing

SOON = timedelta(milliseconds=1)


@dataclass
class Scene:
    """One database: a store, an instance of it, and rows to lock from elsewhere."""

    dsn: str
    store: Store
    holder: Holder

    def job(self, **options: Any) -> str:
        return enqueue(self.store, **options)[0]

    def held(self, phase: str = "work") -> Lease:
        self.job(kind=phase)
        return claim(self.holder, 1, phase)[0]

    def ended(self) -> str:
        lease = self.held()
        self.holder.complete(lease)
        return lease.id

    def orphan(self) -> str:
        lease = self.held()
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("DELETE FROM windlass.claim WHERE token = %s", (lease.token,))
        return lease.id

    def is_locked(self, table: str, job_id: str) -> bool:
        with psycopg.connect(self.dsn, autocommit=True) as other:
            found = other.execute(
                f"SELECT 1 FROM windlass.{table} WHERE id = %s FOR UPDATE SKIP LOCKED", (job_id,)
            ).fetchone()
        return found is None

    @contextmanager
    def locking(self, table: str, where: str, *values: object) -> Iterator[None]:
        """Inside, somebody else holds these rows."""
        with psycopg.connect(self.dsn) as other:
            assert other.execute(f"SELECT FROM windlass.{table} WHERE {where} FOR UPDATE", values).rowcount
            yield
            other.rollback()


@pytest.fixture
def scene(postgres_dsn: str, stores: Open) -> Scene:
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE \"{name}\" SET lock_timeout = '60s'")  # whoever waits fails
    store = stores(postgres_dsn)
    return Scene(postgres_dsn, store, store.join())


# -------------------------------------------------------------------------------- what is picked stays locked


def pick_children(scene: Scene) -> tuple[str, str, str, dict[str, Any]]:
    child = scene.job(after=[After(scene.job())])
    return "job_later", child, "link.pick", {"limit": 9, "after": SMALLEST}


def ended_parents(scene: Scene) -> tuple[str, str, str, dict[str, Any]]:
    parent = scene.ended()
    return "job_done", parent, "link.ended", {"parents": [parent]}


def jobs_of_the_dead(scene: Scene) -> tuple[str, str, str, dict[str, Any]]:
    lease = scene.held()
    return "job", lease.id, "recover.pick", {"tokens": [lease.token], "limit": 9}


def orphans(scene: Scene) -> tuple[str, str, str, dict[str, Any]]:
    return "job", scene.orphan(), "recover.orphans", {"after": SMALLEST, "limit": 9}


def fenced_jobs(scene: Scene) -> tuple[str, str, str, dict[str, Any]]:
    lease = scene.held()
    return "job", lease.id, "record.lock", {"leases": json.dumps([{"id": lease.id, "token": lease.token}])}


def checkpointed_job(scene: Scene) -> tuple[str, str, str, dict[str, Any]]:
    lease = scene.held()
    values = {"done": 1, "total": None, "position": None, "step": 0, "place": 0}
    return "job", lease.id, "checkpoint", {"id": lease.id, "token": lease.token, **values}


def job_with_outputs(scene: Scene) -> tuple[str, str, str, dict[str, Any]]:
    """Its flag is set by the first output, so that the second changes nothing on its row."""
    lease = scene.held()
    scene.holder.put_output(lease, 1, name="first")
    row = {"id": lease.id, "token": lease.token, "name": "second", "value": 2}
    return "job", lease.id, "output.put", {"outputs": json.dumps([row])}


def queued_job_to_cancel(scene: Scene) -> tuple[str, str, str, dict[str, Any]]:
    job_id = scene.job()
    return "job", job_id, "cancel.live", {"id": job_id, "reason": "asked"}


def ended_job_to_retry(scene: Scene) -> tuple[str, str, str, dict[str, Any]]:
    job_id = scene.ended()
    return "job_done", job_id, "retry.peek", {"id": job_id}


def page_to_prune(scene: Scene) -> tuple[str, str, str, dict[str, Any]]:
    job_id = scene.ended()
    before = {f"{name}_before": scene.store.now() for name in ("completed", "failed", "cancelled")}
    return "job_done", job_id, "prune.page", {"after": SMALLEST, "limit": 9, **before}


@pytest.mark.parametrize(
    "picking",
    [
        pick_children,
        ended_parents,
        jobs_of_the_dead,
        orphans,
        fenced_jobs,
        checkpointed_job,
        job_with_outputs,
        queued_job_to_cancel,
        ended_job_to_retry,
        page_to_prune,
    ],
)
def test_what_is_picked_stays_locked_until_the_commit(
    scene: Scene, picking: Callable[[Scene], tuple[str, str, str, dict[str, Any]]]
) -> None:
    """Everything decided about the row in this transaction is true when it commits."""
    table, job_id, verb, parameters = picking(scene)
    with user_transaction(scene.dsn) as tx:
        assert tx.run(verb, **parameters)
        assert scene.is_locked(table, job_id)
    assert not scene.is_locked(table, job_id)


# ----------------------------------------------------------------------------- what others hold is left out


def test_the_linker_leaves_out_children_that_are_locked(scene: Scene) -> None:
    parent = scene.job()
    locked, free = (scene.job(after=[After(parent)]) for _ in range(2))
    with scene.locking("job_later", "id = %s", locked):
        assert scene.store.dependencies.link() == 1
    assert scene.store.dependencies.link() == 1
    assert {scene.store.jobs.get(job_id).reason for job_id in (locked, free)} == {"waiting"}


@pytest.mark.parametrize("place", ["job", "job_later", "job_done"])
def test_the_linker_leaves_out_children_whose_parent_is_locked(scene: Scene, place: str) -> None:
    """A parent in the middle of whatever it is: next time."""
    match place:
        case "job":
            parent = scene.job()
        case "job_later":
            parent = scene.job(delay=timedelta(hours=1))
        case _:
            parent = scene.ended()
    scene.job(after=[After(parent)])
    with scene.locking(place, "id = %s", parent):
        assert scene.store.dependencies.link() == 0
    assert scene.store.dependencies.link() == 1


def test_an_orphan_that_is_locked_is_met_next_time(scene: Scene) -> None:
    locked, free = scene.orphan(), scene.orphan()
    with scene.locking("job", "id = %s", locked):
        assert [item.job_id for item in scene.store.recovery.sweep_orphans()] == [free]
    assert [item.job_id for item in scene.store.recovery.sweep_orphans()] == [locked]


def test_recovery_leaves_out_what_is_locked(scene: Scene, stores: Open) -> None:
    """An instance that is just beating, and a job in an open effect transaction."""
    other = stores(scene.dsn).join(lease=timedelta(milliseconds=50))
    late = stores(scene.dsn).join(lease=timedelta(milliseconds=50))
    jobs = enqueue(scene.store, 2)
    claim(other, 2)
    eventually(lambda: scene.store.now() > _expiry(scene, late.id), "both leases to run out")
    with scene.locking("instance", "id = %s", late.id), scene.locking("job", "id = %s", jobs[0]):
        assert [item.job_id for item in scene.store.recovery.recover()] == [jobs[1]]
        dead = {item.id for item in scene.store.instances.list() if item.dead_at}
        assert dead == {other.id}
    assert [item.job_id for item in scene.store.recovery.recover()] == [jobs[0]]


def test_a_claim_leaves_out_what_is_locked(scene: Scene) -> None:
    locked, free = scene.job(), scene.job()
    with scene.locking("job", "id = %s", locked):
        assert [lease.id for lease in scene.holder.claim("work", 2)] == [free]
    eventually(lambda: [lease.id for lease in scene.holder.claim("work", 2)] == [locked], "the other job")


def test_a_claim_by_id_does_not_wait_for_a_job_that_is_locked(scene: Scene) -> None:
    job_id = scene.job()
    with scene.locking("job", "id = %s", job_id):
        assert scene.holder.claim_one(job_id) is None
    assert scene.holder.claim_one(job_id) is not None


def test_promotion_leaves_out_what_is_locked(scene: Scene) -> None:
    locked, free = (scene.job(delay=SOON) for _ in range(2))
    last = scene.store.jobs.get(free).run_at
    assert last is not None
    eventually(lambda: last < scene.store.now(), "both to be due")
    with scene.locking("job_later", "id = %s", locked):
        assert scene.store.upkeep.promote() == {"work": 1}
        assert scene.store.jobs.get(free).state is State.QUEUED
    eventually(lambda: scene.store.upkeep.promote() == {"work": 1}, "the other job")


def test_folding_leaves_out_what_is_locked(scene: Scene) -> None:
    scene.job(kind="locked"), scene.job(kind="free")
    with scene.locking("delta", "phase = 'locked'"):
        scene.store.upkeep.fold()
        assert scene.store.phases.counts()["locked"].queued == 1
        with psycopg.connect(scene.dsn) as other:
            assert other.execute("SELECT phase FROM windlass.delta").fetchall() == [("locked",)]


def test_pruning_leaves_out_what_is_locked(scene: Scene) -> None:
    locked, _ = scene.ended(), scene.ended()
    keep = Retention(completed=timedelta(0), failed=None, cancelled=None)
    with scene.locking("job_done", "id = %s", locked):
        assert scene.store.upkeep.prune(keep) == 1
    assert scene.store.upkeep.prune(keep) == 1


def test_looking_for_orphans_locks_no_job_that_is_queued(scene: Scene) -> None:
    queued, orphan = scene.job(kind="queued"), scene.orphan()
    with user_transaction(scene.dsn) as tx:
        tx.run("recover.orphans", after=SMALLEST, limit=9)
        assert scene.is_locked("job", orphan) and not scene.is_locked("job", queued)


def test_an_edge_is_consumed_once_though_two_ends_meet(scene: Scene) -> None:
    """The second finds it open, waits for the first, and looks again."""
    parent = scene.job()
    child = scene.job(after=[After(parent)])
    ended = json.dumps([{"id": parent, "state": "completed", "after": SMALLEST}])

    def consumed(tx: Any) -> list[str]:
        rows = tx.run("settle.edges", ended=ended, limit=1000)
        return [str(edge_child) for _, edge_child, policy, _ in rows if policy is not None]

    def consume() -> list[str]:
        with user_transaction(scene.dsn) as tx:
            answer = consumed(tx)
            tx.connection.commit()
            return answer

    with user_transaction(scene.dsn) as first:
        assert consumed(first) == [child]
        second = Waiting(consume)
        until_blocked(scene.dsn, second)
        first.connection.commit()
    assert second.result() == []


def test_a_child_that_is_freed_meanwhile_is_not_cancelled_for_its_parent(scene: Scene) -> None:
    """The one that cancels waits for the one that counts down, and then looks again why the child waits."""
    child = scene.job(after=[After(scene.job())])
    scene.store.dependencies.link()

    def cancel() -> list[Any]:
        with user_transaction(scene.dsn) as tx:
            answer = tx.run(
                "cancel.later", ids=[child], error=json.dumps({}), reasons=["waiting", "unlinked"]
            )
            tx.connection.commit()
            return answer

    with user_transaction(scene.dsn) as first:
        assert first.run("settle.count", children=json.dumps([{"id": child, "satisfied": 1}]))
        second = Waiting(cancel)
        until_blocked(scene.dsn, second)
        first.connection.commit()
    assert second.result() == []
    assert scene.store.jobs.get(child).state is State.SCHEDULED


# --------------------------------------------------------------------------- many rows are locked in one order


@pytest.mark.parametrize("verb", ["settle.count", "cancel.later", "settle.edges"])
def test_rows_are_locked_in_the_order_of_their_ids(scene: Scene, verb: str) -> None:
    """Though they lie the other way round: whoever waits for the first holds none of the others, so that no two wait for
    each other."""
    ids = sorted(new_id() for _ in range(2))
    parent = scene.job()
    for child in reversed(ids):
        scene.store.enqueue([NewJob(kind="child", id=child, after=[After(parent, DependencyPolicy.RUN)])])
    scene.store.dependencies.link()
    with psycopg.connect(scene.dsn, autocommit=True) as connection:
        connection.execute("SET enable_seqscan = on")
        connection.execute("ANALYZE windlass.job_later, windlass.job_dep")
    every: dict[str, dict[str, Any]] = {
        "settle.count": {"children": json.dumps([{"id": child, "satisfied": 1} for child in reversed(ids)])},
        "cancel.later": {"ids": ids[::-1], "error": json.dumps({}), "reasons": ["waiting"]},
        "settle.edges": {
            "ended": json.dumps([{"id": parent, "state": "completed", "after": SMALLEST}]),
            "limit": 1000,
        },
    }
    parameters = every[verb]
    table, column = ("job_dep", "child") if verb == "settle.edges" else ("job_later", "id")

    def work() -> None:
        with user_transaction(scene.dsn) as tx:
            tx.run(verb, **parameters)

    with scene.locking(table, f"{column} = %s", ids[0]):
        waiting = Waiting(work)
        until_blocked(scene.dsn, waiting)
        with psycopg.connect(scene.dsn) as other:
            text = f"SELECT {column} FROM windlass.{table} FOR UPDATE SKIP LOCKED"
            assert [str(row[0]) for row in other.execute(text)] == [ids[1]]
    waiting.result()


def _expiry(scene: Scene, instance: str) -> Any:
    (found,) = (item for item in scene.store.instances.list() if item.id == instance)
    return found.heartbeat_at + found.lease
