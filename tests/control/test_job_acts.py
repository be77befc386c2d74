"""Acts on one job through the control service: what they change, what they refuse, and what the audit trail says of them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, one, state
from tests.control.conftest import ANNA, BERT, BOSS, CARA, OPS
from windlass import App, ConfigError
from windlass.audit.record import AuditRecord
from windlass.clock import ManualClock
from windlass.errors import ActRefusedError, IllegalTransitionError, JobNotFoundError
from windlass.features import Store
from windlass.model import After, CancelResult, Debounce, JobLimit, Key, KeyScope, NewJob, Retried, State
from windlass.model.principal import Principal

HOUR = timedelta(hours=1)


def failed(store: Store, **options: Any) -> str:
    job_id = one(store, "welcome", **options)
    holder = store.join()
    holder.fail(claim_one(holder, "welcome"), BOOM)
    holder.step()
    holder.leave()
    return job_id


def trail(app: App) -> list[AuditRecord]:
    return [*app.audit.list().records]


# ---------------------------------------------------------------------- cancel


def test_a_cancel_is_recorded_with_its_reason_and_both_states(app: App, store: Store) -> None:
    job_id = one(store, "welcome")
    assert app.acting_as(BOSS).jobs.cancel(job_id, "ordered twice") is CancelResult.CANCELLED
    (record,) = trail(app)
    assert (record.actor, record.act, record.target, record.name, record.reason) == (
        "boss",
        "job.cancel",
        "job",
        job_id,
        "ordered twice",
    )
    assert record.before["state"] == "queued"
    assert record.after["state"] == "cancelled" and record.after["error_code"] == "cancelled"
    assert "args" not in record.before


def test_a_cancel_of_a_running_job_is_recorded_as_a_request(app: App, store: Store) -> None:
    job_id = one(store, "welcome")
    claim_one(store.join(), "welcome")
    assert app.jobs.cancel(job_id, "too slow") is CancelResult.REQUESTED
    (record,) = trail(app)
    assert record.after["state"] == "processing" and record.after["cancel_requested_at"]


@pytest.mark.parametrize("reason", ["", "  ", "a\0b", None])
def test_cancel_and_delete_need_a_reason(app: App, store: Store, reason: Any) -> None:
    job_id = one(store, "welcome")
    for act in (app.jobs.cancel, app.jobs.delete):
        with pytest.raises(ConfigError, match="reason"):
            act(job_id, reason)
    assert state(store, job_id) is State.QUEUED and not trail(app)


# ---------------------------------------------------------------------- retry


def test_a_retry_is_recorded_with_both_generations(app: App, store: Store) -> None:
    job_id = failed(store)
    job = app.jobs.retry(job_id, "mended")
    assert (job.state, job.generation) == (State.QUEUED, 2)
    (record,) = trail(app)
    assert record.act == "job.retry" and record.actor == "app" and record.reason == "mended"
    assert (record.before["state"], record.before["error_code"], record.before["generation"]) == (
        "failed",
        "boom",
        1,
    )
    assert (record.after["state"], record.after["generation"]) == ("queued", 2)


def test_refused_acts_are_not_recorded(app: App, store: Store) -> None:
    live, ended = one(store, "report"), failed(store)
    with pytest.raises(IllegalTransitionError):
        app.jobs.retry(live)
    with pytest.raises(IllegalTransitionError):
        app.jobs.cancel(ended, "x")
    with pytest.raises(ActRefusedError, match=r"delete.*queued.*cancel it first"):
        app.jobs.delete(live, "x")
    assert not trail(app)


def test_a_retry_with_dependents_revives_them(app: App, store: Store) -> None:
    parent = one(store, "welcome")
    child = one(store, "report", after=[After(parent)])
    store.dependencies.link()
    app.jobs.cancel(parent, "x")
    assert state(store, child) is State.CANCELLED
    app.jobs.retry(parent, "y", dependents=True)
    assert state(store, child) is State.WAITING


# ---------------------------------------------------------------------- run now


def test_a_scheduled_job_is_made_due(app: App, store: Store) -> None:
    job_id = one(store, "welcome", delay=HOUR)
    job = app.jobs.run_now(job_id, "the customer waits")
    assert job.run_at == store.now()
    assert store.upkeep.promote() == {"welcome": 1}
    assert state(store, job_id) is State.QUEUED
    (record,) = trail(app)
    assert record.act == "job.run_now"
    assert record.before["run_at"] == (store.now() + HOUR).isoformat()
    assert record.after["run_at"] == store.now().isoformat()


def test_a_retrying_job_is_made_due(app: App, store: Store) -> None:
    job_id = one(store, "welcome")
    holder = store.join()
    holder.record([Retried(claim_one(holder, "welcome"), BOOM, HOUR)])
    assert store.jobs.get(job_id).reason == "retry"
    app.jobs.run_now(job_id)
    assert store.upkeep.promote() == {"welcome": 1}


def test_a_debounced_job_is_made_due(app: App, store: Store) -> None:
    job_id = one(store, "welcome", debounce=Debounce("anna", wait=3600))
    app.jobs.run_now(job_id)
    assert store.upkeep.promote() == {"welcome": 1}


def test_what_waits_for_no_time_cannot_be_made_due(app: App, store: Store) -> None:
    parent = one(store, "welcome")
    child = one(store, "report", after=[After(parent)])
    limited = one(store, "report", limits=[JobLimit(phase="report", limit=1)])
    for job_id, why in (
        (child, r"waiting: it waits for 1 of 1 jobs, and not for a time"),
        (limited, r"waiting: it waits for a place in the limit"),
        (parent, r"queued: it is in its queue already"),
    ):
        with pytest.raises(ActRefusedError, match=why):
            app.jobs.run_now(job_id)
    assert not trail(app)


def test_a_job_that_is_due_already_is_not_moved_back(app: App, store: Store, clock: ManualClock) -> None:
    job_id = one(store, "welcome", delay=HOUR)
    due = store.jobs.get(job_id).run_at
    clock.advance(2 * HOUR)
    with pytest.raises(ActRefusedError, match="due already"):
        app.jobs.run_now(job_id)
    assert store.jobs.get(job_id).run_at == due and not trail(app)


# ---------------------------------------------------------------------- delete


def test_delete_removes_the_job_its_attempts_and_its_keys(app: App, store: Store) -> None:
    job_id = one(
        store, "welcome", key=Key("k", scope=KeyScope.IDEMPOTENT), headers={"a": "b"}, principal=ANNA
    )
    holder = store.join()
    holder.record([Retried(claim_one(holder, "welcome"), BOOM, timedelta(0))])
    store.upkeep.promote()
    holder.fail(claim_one(holder, "welcome"), BOOM)
    holder.step()
    assert store.jobs.attempts(job_id)
    app.jobs.delete(job_id, "asked to be forgotten")
    with pytest.raises(JobNotFoundError):
        app.jobs.get(job_id)
    assert not store.jobs.attempts(job_id)
    assert not store.db.read("principal.list", ids=[job_id])
    assert not store.db.read("headers.list", ids=[job_id])
    assert_counts_are_true(store)
    again = store.enqueue([NewJob(kind="welcome", key=Key("k", scope=KeyScope.IDEMPOTENT))])
    assert again[0].created and again[0].id != job_id
    (record,) = trail(app)
    assert record.act == "job.delete" and record.before["state"] == "failed" and record.after is None


def test_a_parent_is_kept_while_children_need_its_result(app: App, store: Store) -> None:
    parent = one(store, "welcome")
    children = [one(store, "report", after=[After(parent)]) for _ in range(2)]
    store.dependencies.link()
    holder = store.join()
    holder.complete(claim_one(holder, "welcome"), result="7")
    holder.step()
    with pytest.raises(ActRefusedError, match="2 jobs that have not ended need its result"):
        app.jobs.delete(parent, "x")
    assert state(store, parent) is State.COMPLETED and not trail(app)
    app.jobs.cancel(children[0], "x")
    with pytest.raises(ActRefusedError, match="1 job that has not ended needs its result"):
        app.jobs.delete(parent, "x")
    app.jobs.cancel(children[1], "x")
    app.jobs.delete(parent, "x")
    assert_counts_are_true(store)


# ---------------------------------------------------------------------- who may

ACTS = ("cancel", "retry", "run_now", "delete")
OWNERS = {"anna": ANNA, "bert": BERT, "cara": CARA, "nobody": None}
MAY = {
    "anna": (ANNA, {"anna"}),
    "bert": (BERT, {"bert"}),
    "cara": (CARA, {"cara"}),
    "operator": (OPS, {"anna", "bert"}),
    "admin": (BOSS, {"anna", "bert", "cara", "nobody"}),
    "namesake": (Principal("anna", tenant="other"), set[str]()),
    "other issuer": (Principal("anna", issuer="elsewhere", tenant="acme"), set[str]()),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("who", MAY)
def test_jobs_of_others_are_not_found_not_changed_and_not_recorded(
    app: App, store: Store, act: str, who: str
) -> None:
    principal, allowed = MAY[who]
    control = app.acting_as(principal)
    ids = {}
    for name, owner in OWNERS.items():
        options = {} if owner is None else {"principal": owner}
        if act in ("retry", "delete"):
            ids[name] = failed(store, **options)
        else:
            ids[name] = one(store, "welcome", delay=HOUR, **options)
    missing = "00000000-0000-7000-8000-000000000000"
    for name, job_id in [*ids.items(), ("missing", missing), ("no id", "x'; --")]:
        call = getattr(control.jobs, act)
        before = [] if name not in ids else [store.jobs.get(job_id)]
        count = len(trail(app))
        if name in allowed:
            call(job_id, "because")
            (record, *_) = trail(app)
            assert len(trail(app)) == count + 1
            assert (record.name, record.act, record.subject, record.tenant) == (
                job_id,
                f"job.{act}",
                principal.subject,
                principal.tenant,
            )
            continue
        with pytest.raises(JobNotFoundError) as refused:
            call(job_id, "because")
        assert str(refused.value) == str(JobNotFoundError(job_id)), (
            "in the words for a job that does not exist"
        )
        assert before == ([] if name not in ids else [store.jobs.get(job_id)])
        assert len(trail(app)) == count


def test_acts_work_from_coroutines(app: App, store: Store) -> None:
    later, ended = one(store, "welcome", delay=HOUR), failed(store)

    async def acts() -> None:
        await app.jobs.run_now_async(later)
        await app.jobs.cancel_async(later, "x")
        await app.jobs.retry_async(ended)
        await app.jobs.cancel_async(ended, "x")
        await app.jobs.delete_async(ended, "x")

    asyncio.run(acts())
    assert [record.act for record in reversed(trail(app))] == [
        "job.run_now",
        "job.cancel",
        "job.retry",
        "job.cancel",
        "job.delete",
    ]


def test_the_applications_audit_function_gets_the_record_of_an_act(store: Store) -> None:
    given: list[AuditRecord] = []
    with App(store=store, audit=given.append) as app:

        @app.job
        def welcome() -> None: ...

        job_id = one(store, "welcome")
        app.jobs.cancel(job_id, "x")
        with pytest.raises(IllegalTransitionError):
            app.jobs.cancel(job_id, "x")
    assert [record.act for record in given] == ["job.cancel"]
