"""Ticks: each due time makes one job, whoever fires it and whenever; what is missed is made up for as the policy says."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conformance.bystanders import prefix
from tests.conformance.life import assert_counts_are_true, every_job
from tests.schedules.scheduled import DAY, HOUR, MINUTE, T0, code, dues, minutes, new
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import Fired, Missed, State
from windlass.schedules import cron
from windlass.store.ids import new_id

# -------------------------------------------------------------------------------------------------------------- firing


def test_a_due_time_makes_one_job_and_moves_on(
    store: Store, opened: Callable[[], Store], clock: ManualClock
) -> None:
    """I-27: the tick, its job and the next due time are one commit; nobody fires it again."""
    store.schedules.put(new(args={"n": 1}, priority=7, max_attempts=2))
    other = store.schedules.put(new("other", "@daily"))
    assert store.schedules.fire_due() == []
    clock.advance(5 * MINUTE - timedelta(microseconds=1))
    assert store.schedules.fire_due() == []
    clock.advance(timedelta(microseconds=1))
    (fired,) = store.schedules.fire_due()
    assert opened().schedules.fire_due() == [] == store.schedules.fire_due()
    (tick,) = fired.ticks
    assert (fired.schedule, fired.phase, fired.skipped, fired.refused) == ("tidy", "work", 0, None)
    assert (tick.at, tick.fired_at, tick.covers) == (T0 + 5 * MINUTE, clock.now(), 1)
    job = store.jobs.get(tick.job_id)
    assert (job.kind, job.phase, job.args, job.priority, job.max_attempts) == ("work", "work", {"n": 1}, 7, 2)
    assert job.state is State.QUEUED and job.correlation_id == "tidy@2026-01-01T00:05:00Z"
    found = store.schedules.get("tidy")
    assert (found.last_at, found.last_job, found.next_at) == (tick.at, job.id, T0 + 10 * MINUTE)
    assert store.schedules.ticks("tidy") == [tick]
    assert store.schedules.get("other") == other
    assert len(every_job(store)) == 1
    assert_counts_are_true(store)


def test_a_tick_that_has_fired_makes_no_second_job(store: Store, clock: ManualClock) -> None:
    """Not even if a schedule's next due time is set back behind it: the tick's key is the guard."""
    store.schedules.put(new())
    clock.advance(5 * MINUTE)
    store.schedules.fire_due()
    before = store.schedules.get("tidy")
    with store.db.effect(5) as tx:
        table, mark = f"{prefix(store)}schedule", "?" if store.db.dialect == "sqlite" else "%s"
        tx.connection.execute(f"UPDATE {table} SET next_at = {mark}", (store.db.stamp(T0 + 5 * MINUTE),))
    (again,) = store.schedules.fire_due()
    assert again.ticks == [] and len(every_job(store)) == 1
    assert store.schedules.get("tidy") == before


def test_due_schedules_fire_longest_due_first_and_not_more_than_asked_for(
    store: Store, clock: ManualClock
) -> None:
    for name, expression in (("a", "5 * * * *"), ("b", "4 * * * *"), ("c", "3 * * * *"), ("d", "2 * * * *")):
        store.schedules.put(new(name, expression))
    clock.advance(4 * MINUTE)
    assert [item.schedule for item in store.schedules.fire_due(2)] == ["d", "c"]
    assert [item.schedule for item in store.schedules.fire_due(2)] == ["b"]
    assert store.schedules.fire_due(2) == []
    clock.advance(MINUTE)
    assert [item.schedule for item in store.schedules.fire_due(2)] == ["a"]


def test_many_schedules_fire_at_once(store: Store, clock: ManualClock) -> None:
    store.schedules.define([code(f"s{n}", "* * * * * *") for n in range(60)], ["shop.jobs"])
    clock.advance(1)
    assert len(store.schedules.fire_due()) == 60
    assert {job.correlation_id for job in every_job(store)} == {
        f"s{n}@2026-01-01T00:00:01Z" for n in range(60)
    }
    assert store.schedules.fire_due() == []


def test_the_agenda_and_the_ticker_know_when_the_next_tick_is_due(store: Store, clock: ManualClock) -> None:
    def seconds() -> float | None:
        assert store.upkeep.agenda().features["tick_in"] == store.schedules.tick_in()
        return store.schedules.tick_in()

    assert seconds() is None
    store.schedules.put(new())
    store.schedules.put(new("soon", "* * * * *"))
    assert seconds() == 60.0
    store.schedules.pause("soon", "later")
    assert seconds() == 300.0
    clock.advance(301)
    assert seconds() == -1.0
    store.schedules.fire_due()
    assert seconds() == 299.0
    store.schedules.pause("tidy", "later")
    assert seconds() is None


def test_a_job_gets_its_due_time_if_it_asks_for_it(store: Store, clock: ManualClock) -> None:
    store.schedules.put(new(args={"n": 1, "due": "soon"}, due_as="due"))
    clock.advance(5 * MINUTE + timedelta(seconds=2))
    (due,) = dues(store.schedules.fire_due())
    (job,) = every_job(store)
    assert job.args == {"n": 1, "due": "2026-01-01T00:05:00+00:00"} and due.isoformat() == job.args["due"]


def test_a_correlation_id_of_its_own_is_kept(store: Store, clock: ManualClock) -> None:
    store.schedules.put(new(correlation_id="tidying"))
    clock.advance(5 * MINUTE)
    store.schedules.fire_due()
    store.schedules.run_now("tidy")
    assert [job.correlation_id for job in every_job(store)] == ["tidying"] * 2


def test_jitter_spreads_jobs_after_their_tick(store: Store, clock: ManualClock) -> None:
    """Each at a place of its own, the same whoever fires it; what was missed is spread from now on."""
    spread = timedelta(seconds=60)
    store.schedules.define([code(f"s{n}", jitter=spread) for n in range(20)], ["shop.jobs"])
    store.schedules.put(new("late", missed=Missed.ALL, jitter=spread))
    clock.advance(5 * MINUTE)
    store.schedules.fire_due()
    runs = {job.correlation_id: job.run_at for job in every_job(store)}
    assert all(clock.now() <= at <= clock.now() + spread for at in runs.values())
    assert len(set(runs.values())) > 15
    assert {job.state for job in every_job(store)} <= {State.SCHEDULED, State.QUEUED}
    clock.advance(HOUR)
    store.upkeep.promote()
    (fired,) = (item for item in store.schedules.fire_due() if item.schedule == "late")
    assert len(fired.ticks) == 12
    late = [store.jobs.get(tick.job_id).run_at for tick in fired.ticks]
    assert all(at is not None and clock.now() <= at <= clock.now() + spread for at in late)
    assert_counts_are_true(store)


def test_a_row_that_cannot_fire_is_paused_and_stops_nobody(store: Store, clock: ManualClock) -> None:
    """An expression of somebody else's release; arguments that somebody wrote by hand."""
    for name in ("bad-expression", "bad-kind", "bad-args", "good"):
        store.schedules.put(new(name, due_as="at"))
    table = f"{prefix(store)}schedule"
    with store.db.effect(5) as tx:
        for change in (
            "SET expression = 'x' WHERE name = 'bad-expression'",
            "SET kind = ' ' WHERE name = 'bad-kind'",
            "SET args = '[1]' WHERE name = 'bad-args'",
        ):
            tx.connection.execute(f"UPDATE {table} {change}")
    clock.advance(5 * MINUTE)
    fired = {item.schedule: item for item in store.schedules.fire_due()}
    assert len(fired["good"].ticks) == 1 and fired["good"].refused is None
    for name, word in (
        ("bad-expression", "'x'"),
        ("bad-kind", "kind"),
        ("bad-args", ""),
    ):
        assert word in (fired[name].refused or "") and not fired[name].ticks
        found = store.schedules.get(name)
        assert found.state == "paused" and found.pause_reason == fired[name].refused
    assert store.schedules.fire_due() == [] and len(every_job(store)) == 1


def test_a_schedule_whose_zone_is_not_known_here_is_left_to_others(
    opened: Callable[[], Store], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instance with older time zones must not pause it for the whole fleet, nor keep others from firing here."""
    old, newer = opened(), opened()
    old.schedules.put(new("early", tz="Europe/Berlin"))
    clock.advance(MINUTE)
    old.schedules.put(new("later"))
    clock.advance(5 * MINUTE)
    real = cron.parse

    def parse_without(text: str, tz: str) -> cron.Expression:
        return real(text, "Mars/Base" if tz == "Europe/Berlin" else tz)

    with monkeypatch.context() as here:
        here.setattr(cron, "parse", parse_without)  # as on a machine whose files lack that zone
        (left,) = old.schedules.fire_due(limit=1)
        assert left.schedule == "early" and left.refused is None and "Mars/Base" in (left.left or "")
        assert old.schedules.left() == {"early": left.left}
        (fired,) = old.schedules.fire_due(limit=1)
        assert fired.schedule == "later" and len(fired.ticks) == 1
        assert old.schedules.fire_due() == []
        assert (old.schedules.tick_in() or 0) > 0, "it does not look for what it left all the time"
    assert old.schedules.get("early").state == "active"
    (fired,) = newer.schedules.fire_due()
    assert fired.schedule == "early" and len(fired.ticks) == 1


# -------------------------------------------------------------------------------------------------------------- missed


def fire_after(store: Store, clock: ManualClock, wait: timedelta, **options: Any) -> Fired:
    store.schedules.put(new(**options))
    clock.advance(wait)
    (fired,) = store.schedules.fire_due()
    assert store.schedules.fire_due() == []
    found = store.schedules.get("tidy")
    assert found.next_at is not None and found.next_at > clock.now()
    assert found.skipped == fired.skipped
    assert len(every_job(store)) == len(fired.ticks)
    return fired


@pytest.mark.parametrize("missed", Missed)
def test_a_tick_that_is_a_little_late_is_not_missed(store: Store, clock: ManualClock, missed: Missed) -> None:
    fired = fire_after(store, clock, 5 * MINUTE + timedelta(seconds=10), missed=missed)
    assert dues([fired]) == minutes(5) and fired.skipped == 0 and fired.ticks[0].covers == 1


def test_skip_makes_up_for_nothing(store: Store, clock: ManualClock) -> None:
    fired = fire_after(store, clock, HOUR + 3 * MINUTE, missed=Missed.SKIP)
    assert fired.ticks == [] and fired.skipped == 12
    found = store.schedules.get("tidy")
    assert found.next_at == T0 + 65 * MINUTE and found.last_at is None
    clock.advance(2 * MINUTE)
    assert dues(store.schedules.fire_due()) == minutes(65), "only the next future one"


def test_skip_still_fires_the_tick_that_is_due_now(store: Store, clock: ManualClock) -> None:
    fired = fire_after(store, clock, HOUR, missed=Missed.SKIP)
    assert dues([fired]) == minutes(60) and fired.skipped == 11 and fired.ticks[0].covers == 1


def test_once_makes_one_job_for_all_that_was_missed(store: Store, clock: ManualClock) -> None:
    fired = fire_after(store, clock, HOUR + 3 * MINUTE, missed=Missed.ONCE)
    assert dues([fired]) == minutes(60), "the last of them"
    assert (fired.ticks[0].covers, fired.skipped) == (12, 11)


def test_once_lets_the_tick_that_is_due_now_stand_for_the_others(store: Store, clock: ManualClock) -> None:
    fired = fire_after(store, clock, HOUR, missed=Missed.ONCE)
    assert dues([fired]) == minutes(60) and (fired.ticks[0].covers, fired.skipped) == (12, 11)


def test_all_makes_up_for_each_oldest_first(store: Store, clock: ManualClock) -> None:
    fired = fire_after(store, clock, HOUR + 3 * MINUTE, missed=Missed.ALL)
    assert dues([fired]) == minutes(*range(5, 65, 5)) and fired.skipped == 0 and not fired.is_capped
    queued = sorted(every_job(store), key=lambda job: job.id)
    assert [job.id for job in queued] == [tick.job_id for tick in fired.ticks]


def test_all_makes_up_for_no_more_than_its_cap(store: Store, clock: ManualClock) -> None:
    fired = fire_after(store, clock, HOUR, missed=Missed.ALL, cap=4)
    assert dues([fired]) == minutes(5, 10, 15, 20, 60), "the oldest, and the one that is due now"
    assert fired.skipped == 7 and fired.is_capped


def test_all_up_to_its_cap_is_not_too_many(store: Store, clock: ManualClock) -> None:
    fired = fire_after(store, clock, HOUR + 3 * MINUTE, missed=Missed.ALL, cap=12)
    assert len(fired.ticks) == 12 and fired.skipped == 0 and not fired.is_capped


@pytest.mark.parametrize(("missed", "jobs"), [(Missed.SKIP, 11), (Missed.ONCE, 11), (Missed.ALL, 111)])
def test_a_day_down_is_policy_exactly_and_quick(
    store: Store, clock: ManualClock, missed: Missed, jobs: int
) -> None:
    """Experiment 32, with a schedule of every second: 86,400 due times, the last eleven of them not missed yet."""
    fired = fire_after(store, clock, DAY, expression="* * * * * *", missed=missed)
    assert len(fired.ticks) == jobs
    assert fired.is_capped is (missed is Missed.ALL)
    assert fired.skipped == 1000, "counted up to a thousand"


def test_much_to_make_up_for_is_not_one_long_transaction(store: Store, clock: ManualClock) -> None:
    often = [code(f"s{n}", "* * * * * *", missed=Missed.ALL, cap=1000) for n in range(4)]
    store.schedules.define(often, ["shop.jobs"])
    clock.advance(HOUR)
    rounds = []
    while fired := store.schedules.fire_due():
        rounds.append([len(item.ticks) for item in fired])
        assert all(item.is_capped and item.skipped == 1000 for item in fired)
    assert rounds == [[1011, 1011], [1011, 1011]]
    assert store.phases.counts()["work"].queued == 4 * 1011


def test_an_outage_of_years_of_a_rare_schedule(store: Store, clock: ManualClock) -> None:
    fired = fire_after(store, clock, 4 * 366 * DAY, expression="0 6 1 7 *", tz="Europe/Berlin")
    assert dues([fired]) == [datetime(2029, 7, 1, 4, tzinfo=UTC)] and fired.ticks[0].covers == 4


def test_daylight_saving_is_once_each_way(store: Store, clock: ManualClock) -> None:
    """A year of nightly ticks in Berlin: one a night, 03:00 where 02:30 does not exist, the first where it comes twice."""
    store.schedules.put(new(expression="30 2 * * *", tz="Europe/Berlin", missed=Missed.ALL))
    seen: list[datetime] = []
    for _ in range(73):
        clock.advance(5 * DAY)
        seen += dues(store.schedules.fire_due())
    assert len(seen) == 365 and seen == sorted(set(seen))
    assert datetime(2026, 3, 29, 1, tzinfo=UTC) in seen and datetime(2026, 10, 25, 0, 30, tzinfo=UTC) in seen
    assert len({job.correlation_id for job in every_job(store)}) == 365


# --------------------------------------------------------------------------------------------------------------- ticks


def test_ticks_are_listed_newest_first_and_pruned_by_number(store: Store, clock: ManualClock) -> None:
    store.schedules.put(new("often", "* * * * *"))
    store.schedules.put(new("seldom", "*/4 * * * *"))
    for _ in range(10):
        clock.advance(MINUTE)
        store.schedules.fire_due()
    assert [tick.at for tick in store.schedules.ticks("often", limit=3)] == minutes(10, 9, 8)
    assert [tick.at for tick in store.schedules.ticks("seldom")] == minutes(8, 4)
    assert store.schedules.prune_ticks(keep=3) == 7
    assert [tick.at for tick in store.schedules.ticks("often")] == minutes(10, 9, 8)
    assert [tick.at for tick in store.schedules.ticks("seldom")] == minutes(8, 4)
    assert store.schedules.prune_ticks(keep=3) == 0
    assert store.schedules.prune_ticks(keep=1) == 3
    assert store.schedules.ticks("none") == []


def test_the_database_refuses_a_second_tick_of_one_due_time(store: Store, clock: ManualClock) -> None:
    """I-27 by the table's key, whatever the code does."""
    store.schedules.put(new())
    clock.advance(5 * MINUTE)
    (fired,) = store.schedules.fire_due()
    row = {
        "schedule": "tidy",
        "at": store.db.stamp(fired.ticks[0].at),
        "fired_at": store.db.stamp(clock.now()),
        "job": new_id(),
        "covers": 1,
    }
    assert store.db.run("fire.ticks", ticks=json.dumps([row])) == []
    assert [tick.job_id for tick in store.schedules.ticks("tidy")] == [fired.ticks[0].job_id]
    with pytest.raises(Exception, match=r"(?i)unique|duplicate"), store.db.effect(5) as tx:
        mark = "?" if store.db.dialect == "sqlite" else "%s"
        tx.connection.execute(
            f"INSERT INTO {prefix(store)}tick ({', '.join(row)}) VALUES ({', '.join([mark] * len(row))})",
            list(row.values()),
        )
