"""Looks of an idle instance: one read says where there is work, one whether anything is to be recovered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from tests.conformance.bystanders import Crowd, gather, prefix, rows
from tests.conformance.life import BOOM, LEASE, claim_one, enqueue, every_job, one
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import After, NewJob, State
from windlass.store.postgres import transaction as pg_store
from windlass.store.sqlite import database as sqlite_store

LONG = timedelta(days=30)


@contextmanager
def statements(store: Store) -> Iterator[list[str]]:
    """Inside, the verbs that are run, in order."""
    module: Any = sqlite_store if store.db.dialect == "sqlite" else pg_store
    seen: list[str] = []

    class Recording(dict[str, Any]):
        def __getitem__(self, verb: str) -> Any:
            seen.append(verb)
            return super().__getitem__(verb)

    before = module.STATEMENTS
    module.STATEMENTS = Recording(before)
    try:
        yield seen
    finally:
        module.STATEMENTS = before


# ---------------------------------------------------------------------------------------------------- where is work?


def test_a_look_answers_the_phases_a_claim_would_find_something_in(
    store: Store, opened: Callable[[], Store]
) -> None:
    """Among jobs in every state, held ones, paused phases, and phases that nobody has heard of."""
    gather(store, opened())
    holder = store.join()
    phases = {job.phase for job in every_job(store)} | {"nothing"}
    paused = {pause.phase for pause in store.phases.paused()}
    queued = {job.phase for job in every_job(store, state=State.QUEUED) if job.reason in (None, "paused")}
    assert len(queued - paused) >= 3 and queued & paused
    with statements(store) as seen:
        assert holder.look(sorted(phases)) == queued - paused
    assert seen == ["ready.phases"], "one statement for all of them"
    for phase in sorted(phases):
        assert holder.look([phase]) == {phase} & (queued - paused)
        assert bool(holder.claim(phase, 1)) == (phase in queued - paused)


def test_a_look_asks_nothing_for_nobody_and_each_phase_once(store: Store) -> None:
    one(store)
    holder = store.join()
    with statements(store) as seen:
        assert holder.look([]) == set()
    assert seen == []
    assert holder.look(["work", "work", "other"]) == {"work"}


def test_held_jobs_are_no_work_until_they_are_released(store: Store) -> None:
    holder = store.join()
    one(store, priority=2)
    lease = claim_one(holder)
    assert holder.look(["work"]) == set()
    holder.release(lease)
    assert holder.look(["work"]) == {"work"}


def test_a_paused_phase_has_no_work_while_it_is_paused(store: Store, clock: ManualClock) -> None:
    holder = store.join()
    enqueue(store, "a")
    enqueue(store, "b")
    enqueue(store, "c")
    store.phases.pause("a", "for ever")
    store.phases.pause("b", "a minute", lasts=timedelta(minutes=1))
    assert holder.look(["a", "b", "c"]) == {"c"}
    clock.advance(61)
    assert holder.look(["a", "b", "c"]) == {"b", "c"}
    store.phases.resume("a")
    assert holder.look(["a", "b", "c"]) == {"a", "b", "c"}


def test_a_look_finds_every_priority(store: Store) -> None:
    holder = store.join()
    for priority in (0, 5, 9):
        one(store, f"p{priority}", priority=priority)
    assert holder.look(["p0", "p5", "p9"]) == {"p0", "p5", "p9"}


def test_a_look_waits_for_nobody(store: Store, opened: Callable[[], Store]) -> None:
    """Somebody's open transaction has the job's row, or the file, locked."""
    holder = store.join()
    one(store)
    with opened().db.effect(5) as tx:
        tx.connection.execute(f"UPDATE {prefix(store)}job SET flags = flags")
        assert holder.look(["work"]) == {"work"}
        assert store.recovery.recover() == []


def test_what_a_look_finds_behind_the_marks_the_next_claim_finds(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    holder, other = store.join(), opened().join()
    old = one(store)
    lease = claim_one(other)
    clock.advance(10)
    one(store)
    claim_one(holder)
    assert holder.look(["work"]) == set()
    other.release(lease)
    holder.nudge("work")
    assert holder.look(["work"]) == {"work"}
    assert [found.id for found in holder.claim("work", 5)] == [old]


def test_on_postgres_a_look_goes_lane_by_lane_from_its_marks(store: Store, clock: ManualClock) -> None:
    """SQLite has no marks: its index holds what nobody holds, and nothing else."""
    if store.db.dialect == "sqlite":
        assert "marks" not in sqlite_store.STATEMENTS["ready.phases"].statements[0].names
        return
    one(store, priority=5)

    def look(lane: int, mark: str) -> bool:
        return bool(store.db.read("ready.phases", phases=["work"], lanes=[lane], marks=[mark]))

    at, later = clock.now().isoformat(), (clock.now() + timedelta(seconds=1)).isoformat()
    assert look(4, "-infinity") and look(4, at)
    assert not look(4, later) and not look(3, "-infinity")


# -------------------------------------------------------------------------------------------------- what else is due?


def test_an_agenda_with_nothing_on_it_says_so(store: Store) -> None:
    agenda = store.upkeep.agenda()
    assert (agenda.due_in, agenda.has("unlinked"), agenda.has_dead, agenda.has_counts) == (
        None,
        False,
        False,
        False,
    )


def test_an_agenda_knows_when_the_next_job_is_due(store: Store, clock: ManualClock) -> None:
    """The earliest of all that wait for their time; one that waits for another job has none."""
    later = one(store, delay=timedelta(minutes=2))
    clock.advance(-3600)
    one(store, after=[After(later)])
    clock.advance(3600)
    assert store.upkeep.agenda().due_in == 120.0
    one(store, delay=timedelta(minutes=1))
    assert store.upkeep.agenda().due_in == 60.0
    holder = store.join()
    one(store, "tried")
    holder.retry_later(claim_one(holder, "tried"), BOOM, timedelta(seconds=30))
    assert store.upkeep.agenda().due_in == 30.0
    with store.db.effect(5) as tx:
        store.enqueuer.enqueue_in(tx, [NewJob(kind="inbox")])
    assert store.upkeep.agenda().due_in == 0.0
    clock.advance(0.5)
    assert store.upkeep.agenda().due_in == -0.5


def test_an_agenda_knows_what_is_to_be_linked_and_folded(store: Store) -> None:
    parent = one(store)
    assert store.upkeep.agenda().has_counts and not store.upkeep.agenda().has("unlinked")
    store.upkeep.fold()
    assert not store.upkeep.agenda().has_counts
    one(store, after=[After(parent)])
    assert store.upkeep.agenda().has("unlinked")
    store.dependencies.link()
    assert not store.upkeep.agenda().has("unlinked"), "linked, it waits for its parent"


# ------------------------------------------------------------------------------------------- is anything to recover?


def is_due(store: Store, own: str | None = None) -> bool:
    """Whether recovery would find something; an instance's agenda says the same, or it would never call it."""
    answer = store.db.is_worth("recover", own=own)
    assert store.upkeep.agenda(own=own).has_dead is answer
    return answer


def test_an_idle_round_of_recovery_is_one_read(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    """Beside living instances with claims, and a dead one that left nothing behind."""
    gather(store, opened())
    dying = opened().join(lease=LEASE)
    clock.advance(LEASE + timedelta(seconds=1))
    assert is_due(store)
    store.recovery.recover()
    assert dying.id in [item.id for item in store.instances.list()]
    with statements(store) as seen:
        assert store.recovery.recover() == []
    assert seen == ["recover.due"]


def test_a_late_instance_is_due_whatever_it_holds(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    opened().join(lease=LEASE)
    clock.advance(LEASE)
    assert not is_due(store)
    clock.advance(1)
    assert is_due(store)
    store.recovery.recover()
    assert [item.dead_at is None for item in store.instances.list()] == [False]
    assert not is_due(store)


def test_a_late_instance_is_not_due_for_itself(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    """It asks, so it is alive. Declared dead by another one, it is due for itself, too: its jobs are to be taken over."""
    late, other = store.join(lease=LEASE), opened().join(lease=LONG)
    one(store)
    claim_one(late)
    clock.advance(LEASE + timedelta(seconds=1))
    assert not is_due(store, late.id) and is_due(store, other.id)
    store.db.run("recover.declare_dead", own=late.id)
    assert not is_due(store, late.id)
    store.db.run("recover.declare_dead", own=other.id)
    assert is_due(store, late.id) and is_due(store, other.id)


def test_a_dead_instance_is_due_while_it_has_claims(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    """Though everything was decided, or nothing could be: its claims are still to be swept."""
    living = store.join(lease=LONG)
    one(store, "living")
    claim_one(living, "living")
    dying = opened().join(lease=LEASE)
    one(store)
    lease = claim_one(dying)
    clock.advance(LEASE + timedelta(seconds=1))
    store.db.run("recover.declare_dead", own=None)
    assert is_due(store)
    assert dying.record([]) == []
    with opened().db.effect(
        5
    ) as tx:  # an effect of the dying instance has its job locked: it is met again next time
        tx.connection.execute(f"UPDATE {prefix(store)}job SET flags = flags WHERE id = '{lease.id}'")
        if store.db.dialect == "postgres":
            assert store.recovery.recover() == []
        assert is_due(store)
    assert [item.job_id for item in store.recovery.recover()] == [lease.id]
    assert not is_due(store) and len(rows(store, "claim")) == 1


def test_a_dead_instance_is_due_when_it_is_to_be_forgotten(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    living = store.join(lease=LONG)
    one(store)
    claim_one(living)
    opened().join(lease=LEASE)
    clock.advance(LEASE + timedelta(seconds=1))
    store.recovery.recover()
    clock.advance(timedelta(hours=1))
    assert not is_due(store)
    clock.advance(1)
    assert is_due(store)
    store.recovery.recover()
    assert [item.id for item in store.instances.list()] == [living.id] and not is_due(store)


def test_a_claim_of_nobody_is_due(store: Store, opened: Callable[[], Store]) -> None:
    """Its instance is gone. Others live."""
    living, lost = store.join(lease=LONG), opened().join(lease=LONG)
    enqueue(store, n=2)
    claim_one(living)
    lease = claim_one(lost)
    assert not is_due(store)
    with store.db.effect(5) as tx:
        tx.connection.execute(f"DELETE FROM {prefix(store)}instance WHERE id = '{lost.id}'")
    assert is_due(store)
    assert [item.job_id for item in store.recovery.recover()] == [lease.id]
    assert not is_due(store)


def test_the_crowd_is_not_due(store: Store, opened: Callable[[], Store]) -> None:
    crowd: Crowd = gather(store, opened())
    assert not is_due(store)
    assert crowd.keeper.beat().released == 0
