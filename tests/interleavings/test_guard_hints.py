"""Hints of PostgreSQL: who is notified (phases that got work and that somebody waits for now), and low-water marks."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta

import psycopg
import pytest

from tests.interleavings.sessions import Open, enqueue
from tests.waiting import eventually
from windlass.features import Store
from windlass.model import After, DependencyPolicy, Want
from windlass.model.rule import Rule
from windlass.store.database import LATER, NUDGE
from windlass.store.ids import new_id

pytestmark = pytest.mark.timing

SOON = timedelta(milliseconds=1)


@pytest.fixture
def store(postgres_dsn: str, stores: Open) -> Store:
    """Somebody waits for a and b; somebody waited for late, but no more; nobody waits for c."""
    store = stores(postgres_dsn)
    store.db.wait(["a", "b"], 60)
    store.db.wait(["late"], -1)
    return store


def row(phase: str, *, notify: bool, pending: int = 0) -> dict[str, object]:
    fixed = {"kind": "k", "lane": 4, "max_attempts": 1, "flags": 0, "args": {}}
    return {"id": new_id(), "phase": phase, "notify": notify, "pending": pending, **fixed}


def test_an_enqueue_tells_who_waits(store: Store, heard: Callable[[], list[str]]) -> None:
    rows = [row("a", notify=True), row("b", notify=False), row("c", notify=True), row("late", notify=True)]
    told = store.db.run("enqueue", jobs=json.dumps(rows))
    assert [answer[0] for answer in told] == ["a"] and heard() == ["a"]
    store.db.wait([LATER], 60)
    told = store.db.run(
        "enqueue", jobs=json.dumps([row("c", notify=True, pending=1), row("b", notify=False)])
    )
    assert [answer[0] for answer in told] == [LATER] and heard() == [LATER]


def test_an_enqueue_of_one_job_tells_who_waits(store: Store, heard: Callable[[], list[str]]) -> None:
    def told(phase: str, *, notify: bool) -> list[str]:
        given = {
            name: value
            for name, value in row(phase, notify=notify).items()
            if name not in ("flags", "pending")
        }
        rows = store.db.run("enqueue.one", **{**given, "args": "{}", "correlation": None})
        return [answer[0] for answer in rows]

    assert [told("b", notify=False), told("c", notify=True), told("late", notify=True)] == [[], [], []]
    assert told("a", notify=True) == ["a"] and heard() == ["a"]


def test_a_bulk_enqueue_tells_who_waits(store: Store, heard: Callable[[], list[str]]) -> None:
    phases = [{"phase": phase, "n": 1, "notify": phase != "b"} for phase in ("a", "b", "c", "late")]
    told = store.db.run("enqueue.copied", phases=json.dumps(phases))
    assert [answer[0] for answer in told] == ["a"] and heard() == ["a"]


def test_a_promotion_tells_who_waits(store: Store, heard: Callable[[], list[str]]) -> None:
    ids = [enqueue(store, kind=phase, delay=SOON)[0] for phase in ("a", "late", "c")]
    last = store.jobs.get(ids[-1]).run_at
    assert last is not None
    eventually(lambda: last < store.now(), "all to be due")
    assert store.upkeep.promote() == {"a": 1, "late": 1, "c": 1}
    assert heard() == ["a"]


def test_the_end_of_a_parent_tells_who_waits_for_its_children(
    store: Store, heard: Callable[[], list[str]]
) -> None:
    (parent,) = enqueue(store, kind="c")
    for phase in ("a", "late"):
        enqueue(store, kind=phase, after=[After(parent, DependencyPolicy.RUN)])
    store.dependencies.link()
    heard()
    store.jobs.cancel(parent)
    assert heard() == ["a"]


@pytest.mark.parametrize(("delay", "told"), [(timedelta(hours=1), [LATER]), (None, ["a"])])
def test_the_end_of_a_parent_tells_upkeep_of_children_that_are_due_later(
    store: Store, heard: Callable[[], list[str]], delay: timedelta | None, told: list[str]
) -> None:
    """Otherwise they would run after the next look of upkeep. Jobs beside them are no reason to look."""
    store.db.wait([LATER], 60)
    (parent,) = enqueue(store, kind="c")
    enqueue(store, kind="a", after=[After(parent, DependencyPolicy.RUN)], delay=delay)
    enqueue(store, kind="a", delay=timedelta(hours=2))
    store.dependencies.link()
    heard()
    store.jobs.cancel(parent)
    assert heard() == told


def test_linking_tells_who_may_have_passed_over_a_locked_parent(
    store: Store, heard: Callable[[], list[str]]
) -> None:
    """A claim skips rows that the linker has locked, finds nothing, and would look again only when its scan is due."""
    (queued,), (claimed,) = enqueue(store, kind="c"), enqueue(store, kind="b")
    store.join().claim("b", 1)
    enqueue(store, kind="a", after=[After(queued), After(claimed)])
    heard()
    assert store.dependencies.link() == 1
    assert heard() == [f"{NUDGE}c"]


def test_catching_up_with_a_rule_tells_who_may_have_passed_over_a_locked_job(
    store: Store, heard: Callable[[], list[str]]
) -> None:
    enqueue(store, kind="c")
    enqueue(store, kind="b")
    store.join().claim("b", 1)
    heard()
    store.rules.put(Rule(name="r", parents=("b", "c"), create="a", phase="a", key=("args.n",)))
    assert heard() == [f"{NUDGE}c"]


def test_a_hint_goes_to_who_waits_and_a_nudge_to_everybody(
    store: Store, heard: Callable[[], list[str]]
) -> None:
    phases = ["a", "c", "late"]
    store.db.run("notify", phases=phases, prefix="")
    assert heard() == ["a"]
    store.db.run("notify", phases=phases, prefix="! ")
    assert heard() == ["! a", "! c", "! late"]


def test_who_waits_for_a_short_time_shortens_nobodys_wait(store: Store, postgres_dsn: str) -> None:
    def until(phase: str) -> object:
        with psycopg.connect(postgres_dsn) as connection:
            text = "SELECT waiting_until FROM windlass.wake WHERE phase = %s"
            return connection.execute(text, (phase,)).fetchone()

    before = until("a")
    store.db.wait(["a", "late"], 1)
    assert until("a") == before
    late = until("late")
    store.db.wait(["late"], 60)
    assert until("late") != late


def test_a_claim_begins_at_the_mark_of_each_lane(store: Store) -> None:
    """Jobs behind it are left to the next full scan."""
    low, high = enqueue(store, kind="m", priority=1), enqueue(store, kind="m", priority=8)
    holder = store.join()

    def claimed(**marks: datetime) -> list[str]:
        lanes = [marks.get(f"lane{lane}") for lane in range(10)]
        _, rows = store.db.step(
            instance=holder.id, outcomes=[], aside=0, emptied=[], wants=[Want("m", 9)], marks=lanes
        )
        return [row[0] for row in rows]

    ahead = store.now() + timedelta(hours=1)
    assert claimed(lane1=ahead, lane8=ahead) == []
    assert claimed(lane1=ahead, lane8=store.jobs.get(low[0]).created_at) == low
    assert claimed() == high


def test_a_promotion_begins_at_its_mark(store: Store) -> None:
    (job_id,) = enqueue(store, kind="m", delay=SOON)
    due = store.jobs.get(job_id).run_at
    assert due is not None
    eventually(lambda: due < store.now(), "it to be due")
    assert store.db.run("promote", limit=9, mark=(due + SOON).isoformat()) == []
    assert [row[0] for row in store.db.run("promote", limit=9, mark=due.isoformat())] == ["m"]
