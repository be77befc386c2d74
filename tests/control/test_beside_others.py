"""Reads and acts of the control service beside other jobs, phases and times: only what is asked about is read or changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.control.conftest import ANNA, BOSS
from windlass import App
from windlass.clock import ManualClock
from windlass.control.why.codes import WhyCode
from windlass.errors import ConfigError, NotAllowedError, RuleNotFoundError, WindlassError
from windlass.features import Store
from windlass.model import After, JobError, Key, NewJob, Rollup, State
from windlass.model.rule import Rule
from windlass.store.ids import new_id

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
START = datetime(2026, 3, 1, tzinfo=UTC)


def _jobs(store: Store, **options: object) -> list[str]:
    """Three jobs alike; the one in the middle is the one that is asked about."""
    jobs = [NewJob(kind="welcome", args={"user": str(number)}, **options) for number in range(3)]  # type: ignore[arg-type]
    return [made.id for made in store.enqueue(jobs)]


@pytest.mark.parametrize("delay", [None, HOUR])
def test_an_edit_changes_one_job(app: App, store: Store, delay: timedelta | None) -> None:
    ids = _jobs(store, delay=delay)
    app.jobs.edit(
        ids[1], version=app.jobs.get(ids[1]).version, arguments={"user": "new"}, priority=9, reason="x"
    )
    assert [store.jobs.get(job_id).args["user"] for job_id in ids] == ["0", "new", "2"]
    assert [store.jobs.get(job_id).priority for job_id in ids] == [5, 9, 5]


def test_a_job_that_is_run_now_is_the_only_one(app: App, store: Store) -> None:
    ids = _jobs(store, delay=HOUR)
    app.jobs.run_now(ids[1])
    store.upkeep.promote()
    assert [str(store.jobs.get(job_id).state) for job_id in ids] == ["scheduled", "queued", "scheduled"]
    (parent,) = store.enqueue([NewJob(kind="report", args={})])
    (child,) = store.enqueue([NewJob(kind="welcome", args={}, after=[After(parent.id)], delay=HOUR)])
    store.dependencies.link()
    with pytest.raises(WindlassError):
        app.jobs.run_now(child.id)
    assert store.jobs.get(child.id).state is State.WAITING


def test_cancelled_jobs_are_no_failures(app: App, store: Store) -> None:
    ids = _jobs(store)
    for job_id in ids[:2]:
        store.jobs.cancel(job_id, "no need")
    holder = store.join()
    (lease,) = holder.claim("welcome", 1)
    holder.fail(lease, JobError(type="ValueError", code="exception", message="bad"))
    found = app.failures.list()
    assert [(group.type, group.total) for group in found.groups] == [
        ("ValueError", 1)
    ] and found.searched == 1


def test_statistics_are_those_of_the_times_and_the_phase(app: App, store: Store) -> None:
    rows = [
        Rollup(minute=START + number * HOUR, phase=phase, completed=10 * number + place + 1)
        for number in range(4)
        for place, phase in enumerate(("a", "b"))
    ]
    store.rollups.put(new_id(), rows)
    store.rollups.fold(START + DAY + HOUR)
    store.rollups.prune(START + DAY)
    found = app.history.read(since=START + HOUR, until=START + 3 * HOUR, phase="b", step=3600)
    assert [(point.at, point.phase, point.completed) for point in found] == [
        (START + HOUR, "b", 12),
        (START + 2 * HOUR, "b", 22),
    ]
    both = app.history.read(since=START + 2 * HOUR, step=3600, until=START + 3 * HOUR)
    assert [point.completed for point in both] == [21, 22]


def test_the_error_of_a_retry_is_that_of_its_own_last_attempt(app: App, store: Store) -> None:
    ids = _jobs(store)
    holder = store.join()
    for lease in holder.claim("welcome", 3):
        name = f"Error{ids.index(lease.id)}"
        holder.retry_later(lease, JobError(type=name, code="exception", message="bad"), HOUR)
    for number, job_id in enumerate(ids):
        why = app.jobs.why(job_id)
        assert why.code is WhyCode.RETRY and why.details["error"]["type"] == f"Error{number}"


def test_the_error_of_an_earlier_phase_or_generation_is_not_that_of_a_retry(app: App, store: Store) -> None:
    (made,) = store.enqueue([NewJob(kind="welcome", args={}, max_attempts=9)])
    holder = store.join()
    (lease,) = holder.claim("welcome", 1)
    holder.retry_later(lease, JobError(type="First", code="exception", message="bad"), timedelta(0))
    store.upkeep.promote()
    (lease,) = holder.claim("welcome", 1)
    holder.advance(lease, "report")
    (lease,) = holder.claim("report", 1)
    holder.retry_later(lease, JobError(type="Second", code="exception", message="bad"), HOUR)
    assert app.jobs.why(made.id).details["error"]["type"] == "Second"


def test_a_pause_of_another_phase_or_one_that_is_over_is_no_reason(
    app: App, store: Store, clock: ManualClock
) -> None:
    (made,) = store.enqueue([NewJob(kind="welcome", args={})])
    app.phases.pause("report", "another one")
    app.phases.pause("welcome", "a short one", lasts=60)
    assert app.jobs.why(made.id).code is WhyCode.PAUSED
    assert "a short one" in app.jobs.why(made.id).sentence
    clock.advance(timedelta(seconds=61))
    why = app.jobs.why(made.id)
    assert WhyCode.PAUSED not in {why.code, *(reason.code for reason in why.also)}


def test_queued_jobs_of_a_phase_are_found_without_those_that_run(app: App, store: Store) -> None:
    ids = _jobs(store)
    (lease,) = store.join().claim("welcome", 1)
    left = [job_id for job_id in ids if job_id != lease.id]
    assert [job.id for job in app.jobs.list("state:queued phase:welcome").jobs] == left[::-1]


def test_ended_jobs_of_a_key_are_found_page_by_page_without_others(app: App, store: Store) -> None:
    ids = []
    holder = store.join()
    for key in ("mine", "other", "mine", "mine"):
        keyed = NewJob(kind="welcome", args={}, key=Key(key))
        (made,) = store.enqueue([keyed])
        ids.append(made.id)
        (lease,) = holder.claim("welcome", 1)
        holder.complete(lease)
    mine = [ids[3], ids[2], ids[0]]
    first = app.jobs.list("key:mine kind:welcome", limit=2)
    rest = app.jobs.list("key:mine kind:welcome", limit=2, cursor=first.next_cursor)
    assert [job.id for job in first.jobs] == mine[:2] and [job.id for job in rest.jobs] == mine[2:]


def test_only_queued_jobs_of_its_own_phase_are_ahead_of_a_job(app: App, store: Store) -> None:
    urgent = store.enqueue([NewJob(kind="welcome", args={}, priority=9)])
    holder = store.join(info={"phases": ["welcome"]})
    holder.claim("welcome", 1)
    ids = _jobs(store)
    for priority in (5, 9):
        store.enqueue([NewJob(kind="report", args={}, priority=priority) for _ in range(4)])
    holder.claim("welcome", 1)
    assert app.jobs.count("state:processing").count == 2 and urgent
    why = app.jobs.why(ids[2])
    (ahead,) = [reason for reason in (why, *why.also) if reason.code is WhyCode.AHEAD]
    assert ahead.details["ahead"] == 1, "the one that runs and those of the other phase do not count"


def test_jobs_ahead_are_counted_up_to_the_limit_in_each_priority(store: Store) -> None:
    lanes = [
        store.enqueue([NewJob(kind="welcome", priority=priority) for _ in range(4)]) for priority in (9, 5)
    ]
    ((_, _, _, lane, *_, at, _, _, _, _, _, _, _, _, _),) = store.db.read("why.job", id=lanes[1][3].id)
    asked = {"phase": "welcome", "lane": lane, "ready": at, "id": lanes[1][3].id}
    ((counted,),) = store.db.read("why.ahead", **asked, limit=2)
    ((all_of_them,),) = store.db.read("why.ahead", **asked, limit=9)
    assert (counted, all_of_them) == (4, 7)


def test_cancelled_jobs_are_found_by_their_state_alone(app: App, store: Store) -> None:
    ids = _jobs(store)
    store.jobs.cancel(ids[0], "no need")
    holder = store.join()
    (lease,) = holder.claim("welcome", 1)
    holder.fail(lease, JobError(type="ValueError", code="exception", message="bad"))
    assert [job.id for job in app.jobs.list("state:cancelled").jobs] == [ids[0]]
    assert [job.id for job in app.jobs.list("state:failed").jobs] == [lease.id]


def test_one_rule_is_removed_with_its_open_fan_ins_and_a_record(app: App, store: Store) -> None:
    store.rules.define(
        [
            Rule(name=name, parents=("north", "south"), create="report", phase="report", key=("args.period",))
            for name in ("one", "two")
        ]
    )
    store.enqueue([NewJob(kind="north", args={"period": "May"})])
    holder = store.join()
    (lease,) = holder.claim("north", 1)
    holder.complete(lease)
    with pytest.raises(NotAllowedError):
        app.acting_as(ANNA).rules.remove("one")
    with pytest.raises(ConfigError, match="reason"):
        app.rules.remove("one", "\0")
    assert app.acting_as(BOSS).rules.remove("one", "merged into two") == 1
    assert [stored.rule.name for stored in app.rules.list()] == ["two"]
    assert [item.rule for item in app.rules.open()] == ["two"]
    for name in ("one", "", "\0", "\ud800"):
        with pytest.raises(RuleNotFoundError):
            app.rules.remove(name)
    (record,) = app.audit.list(target="rule").records
    assert (record.actor, record.act, record.name, record.reason) == (
        "boss",
        "rule.remove",
        "one",
        "merged into two",
    )
    assert record.before["parents"] == ["north", "south"]
