"""Operations: acts on all jobs of a filter, each job once, with progress, refusals, a stop and an audit trail."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.bystanders import execute
from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, enqueue, every_job, one, state
from tests.control.conftest import BOSS, OPS
from tests.waiting import eventually
from windlass import App, ConfigError
from windlass.clock import ManualClock
from windlass.control.job_reading import JobReading
from windlass.control.operation_runner import PAGE, OperationRunner
from windlass.errors import FilterError
from windlass.features import Store
from windlass.model import After, JobLimit, Key, State
from windlass.operations.operation import OperationState

HOUR = timedelta(hours=1)


def failed(store: Store, n: int, kind: str = "welcome", **options: Any) -> list[str]:
    ids = enqueue(store, kind, n, **options)
    holder = store.join()
    while leases := holder.claim(kind, 100):
        for lease in leases:
            holder.fail(lease, BOOM)
        holder.step()
    holder.leave()
    return ids


def acted(app: App, act: str) -> list[str]:
    """The ids of the jobs that the audit trail says were acted on."""
    names, cursor = [], None
    while True:
        page = app.audit.list(cursor=cursor, limit=1000)
        names += [record.name for record in page.records if record.act == act]
        if (cursor := page.next_cursor) is None:
            return names


# ---------------------------------------------------------------------- acting


def test_retry_all_failed_retries_120_of_120(app: App, store: Store) -> None:
    ids, others = failed(store, 120), failed(store, 3, "report")
    handle = app.acting_as(BOSS).jobs.retry_many("state:failed kind:welcome", reason="mended")
    assert (handle.matched, handle.begun.is_exact) == (120, True)
    assert handle.get().state is OperationState.RUNNING
    operation = handle.wait()
    assert (operation.state, operation.done, operation.refused) == (OperationState.DONE, 120, 0)
    jobs = [store.jobs.get(job_id) for job_id in ids]
    assert {(job.state, job.generation) for job in jobs} == {(State.QUEUED, 2)}
    assert {state(store, job_id) for job_id in others} == {State.FAILED}
    assert sorted(acted(app, "job.retry")) == sorted(ids), "one record for each job"
    assert_counts_are_true(store)


def test_the_trail_has_begin_and_end_with_counts_and_each_job_with_the_operation(
    app: App, store: Store
) -> None:
    job_id = failed(store, 1)[0]
    handle = app.acting_as(OPS).operations.start("retry", f"id:{job_id}", "mended")
    assert handle.matched == 0 and handle.wait().done == 0, "of another tenant"
    handle = app.acting_as(BOSS).operations.start("retry", f"id:{job_id}", "mended")
    handle.wait()
    end, job, start = app.audit.list().records[:3]
    assert [(one.act, one.target, one.name) for one in (start, job, end)] == [
        ("operation.start", "operation", handle.id),
        ("job.retry", "job", job_id),
        ("operation.end", "operation", handle.id),
    ]
    assert {one.actor for one in (start, job, end)} == {"boss"}
    assert {one.reason for one in (start, job, end)} == {"mended"}
    assert start.after == {"act": "retry", "filter": f"id:{job_id}", "matched": 1}
    assert (job.before, job.after) == ({"state": "failed"}, {"operation": handle.id})
    assert end.after == {"done": 1, "refused": 0}


def test_cancel_many_cancels_what_waits_and_asks_what_runs(app: App, store: Store) -> None:
    holder = store.join()
    running = enqueue(store, "welcome", 2)
    holder.claim("welcome", 2)
    queued, later = enqueue(store, "welcome", 2), enqueue(store, "welcome", 2, delay=HOUR)
    waiting = one(store, "welcome", after=[After(queued[0])])
    ended = failed(store, 1, "report")
    operation = app.jobs.cancel_many("kind:welcome,report", reason="not needed").wait()
    assert (operation.done, operation.refused) == (7, 1)
    (refusal,) = operation.refusals
    assert (refusal.job_id, refusal.code) == (ended[0], "illegal_transition")
    for job_id in (*queued, *later, waiting):
        assert state(store, job_id) is State.CANCELLED
    assert {asked.job for asked in holder.cancels()} == set(running)
    assert sorted(acted(app, "job.cancel")) == sorted([*running, *queued, *later, waiting])
    assert_counts_are_true(store)


def test_run_now_delete_and_priority_of_many(app: App, store: Store) -> None:
    later, parent = enqueue(store, "welcome", 3, delay=HOUR), one(store, "report")
    limited = one(store, "welcome", limits=[JobLimit(phase="welcome", limit=1)])
    operation = app.operations.start("priority", "kind:welcome", options={"priority": 9}).wait()
    assert operation.done == 4 and {store.jobs.get(job_id).priority for job_id in later} == {9}
    operation = app.operations.start("run_now", "kind:welcome").wait()
    assert (operation.done, [one.job_id for one in operation.refusals]) == (3, [limited])
    assert store.upkeep.promote() == {"welcome": 3}
    app.jobs.cancel_many("kind:welcome", reason="x").wait()
    child = one(store, "welcome", after=[After(parent)])
    store.dependencies.link()
    holder = store.join()
    holder.complete(claim_one(holder, "report"))
    holder.step()
    operation = app.operations.start("delete", "state:cancelled,completed", "tidy up").wait()
    assert operation.done == 4
    assert [(one.job_id, one.code) for one in operation.refusals] == [(parent, "act_refused")]
    assert {job.id for job in every_job(store)} == {parent, child}
    assert_counts_are_true(store)


def test_a_refused_retry_leaves_nothing_behind_and_the_others_go_on(app: App, store: Store) -> None:
    first = failed(store, 1, key=Key("k"))[0]
    rest = failed(store, 3)
    holder = one(store, "welcome", key=Key("k"))
    operation = app.jobs.retry_many("state:failed", reason="x").wait()
    assert (operation.done, operation.refused) == (3, 1)
    assert [(one.job_id, one.code) for one in operation.refusals] == [(first, "key_conflict")]
    assert state(store, first) is State.FAILED and store.jobs.get(first).generation == 1
    assert {state(store, job_id) for job_id in (*rest, holder)} == {State.QUEUED}
    assert first not in acted(app, "job.retry")
    assert_counts_are_true(store)


def test_the_first_hundred_refusals_are_kept_and_all_are_counted(app: App, store: Store) -> None:
    failed(store, 130)
    operation = app.jobs.cancel_many("kind:welcome", reason="x").wait()
    assert (operation.done, operation.refused, len(operation.refusals)) == (0, 130, 100)


def test_retries_with_dependents_bring_the_children_back(app: App, store: Store) -> None:
    parent = one(store, "welcome")
    child = one(store, "report", after=[After(parent)])
    store.dependencies.link()
    app.jobs.cancel(parent, "x")
    app.jobs.retry_many(f"id:{parent}", dependents=True).wait()
    assert state(store, child) is State.WAITING


# ---------------------------------------------------------------------- which jobs


def test_jobs_created_after_the_beginning_are_not_touched(app: App, store: Store, clock: ManualClock) -> None:
    old = enqueue(store, "welcome", 3)
    handle = app.jobs.cancel_many("kind:welcome", reason="x")
    clock.advance(1)
    new = one(store, "welcome", id="00000000-0000-4000-8000-000000000007")  # whatever its id
    assert handle.wait().done == 3
    assert state(store, new) is State.QUEUED and {state(store, job) for job in old} == {State.CANCELLED}


def test_ages_are_as_of_the_beginning(app: App, store: Store, clock: ManualClock) -> None:
    old = one(store, "welcome")
    clock.advance(HOUR)
    young = one(store, "welcome")
    handle = app.jobs.cancel_many("age:>30m", reason="x")
    clock.advance(HOUR)
    handle.wait()
    assert (state(store, old), state(store, young)) == (State.CANCELLED, State.QUEUED)


def test_a_job_that_no_longer_meets_the_filter_is_left_alone(app: App, store: Store) -> None:
    ids = failed(store, 2)
    handle = app.jobs.retry_many("state:failed", reason="x")
    store.jobs.retry(ids[0])
    holder = store.join()
    holder.complete(claim_one(holder, "welcome"))
    holder.step()
    operation = handle.wait()
    assert (operation.matched, operation.done, operation.refused) == (2, 1, 0)
    assert state(store, ids[0]) is State.COMPLETED


def test_a_job_that_changes_between_the_search_and_the_act_is_left_alone(app: App, store: Store) -> None:
    ids = failed(store, 2)
    handle = app.jobs.retry_many("state:failed", reason="x")
    runner = OperationRunner(app.parts)
    search = runner._search(handle.get())
    found = search.run(None, PAGE)
    assert sorted(found.ids) == sorted(ids)
    store.jobs.retry(ids[0])
    holder = store.join()
    holder.complete(claim_one(holder, "welcome"))
    holder.step()
    page = store.db.transact(lambda tx: runner._work(handle.get(), search.parameters, found, {}, tx))
    assert page is not None and [record.name for record in page.records] == [ids[1], handle.id]
    assert state(store, ids[0]) is State.COMPLETED


def test_a_page_that_another_process_did_is_not_done_again(app: App, store: Store) -> None:
    failed(store, PAGE + 10)
    handle = app.jobs.retry_many("state:failed", reason="x")
    runner, seen = OperationRunner(app.parts), handle.get()
    assert runner.run_page(seen)
    assert not runner.run_page(seen), "its cursor has moved"
    assert handle.get().done == PAGE
    assert handle.wait().done == PAGE + 10
    assert len(acted(app, "job.retry")) == PAGE + 10
    assert not runner.run_page(seen)


# ---------------------------------------------------------------------- stop, restart, turns


def test_a_stop_keeps_what_was_done_and_leaves_the_rest(app: App, store: Store) -> None:
    failed(store, PAGE + 10)
    handle = app.acting_as(BOSS).jobs.retry_many("state:failed", reason="x")
    OperationRunner(app.parts).run_page(handle.get())
    assert handle.stop("enough") and not handle.stop("again")
    operation = handle.wait()
    assert (operation.state, operation.done) == (OperationState.STOPPED, PAGE)
    assert operation.finished_at is not None
    assert OperationRunner(app.parts).run_next("worker") is None
    assert sum(job.state is State.FAILED for job in every_job(store)) == 10
    stops = [record for record in app.audit.list().records if record.act == "operation.stop"]
    assert [(record.name, record.reason, record.before["done"]) for record in stops] == [
        (handle.id, "enough", PAGE)
    ]


def test_another_process_goes_on_where_the_first_one_ended(app: App, store: Store, opened: Any) -> None:
    ids = failed(store, 2 * PAGE)
    handle = app.jobs.retry_many("state:failed", reason="x")
    OperationRunner(app.parts).run_page(handle.get())
    with App(store=opened()) as other:
        assert other.operations.wait(handle.id).done == 2 * PAGE
        assert [one.id for one in other.operations.list().operations] == [handle.id]
    assert sorted(acted(app, "job.retry")) == sorted(ids)


def test_processes_take_turns_and_operations_take_turns(app: App, store: Store, clock: ManualClock) -> None:
    failed(store, 3 * PAGE)
    one(store, "report")
    large = app.jobs.retry_many("state:failed", reason="x")
    small = app.jobs.cancel_many("kind:report", reason="x")
    runner = OperationRunner(app.parts)
    clock.advance(1)
    assert runner.run_next("a") == 0.0
    assert runner.run_next("b") == 1.0, "the turn is a's"
    clock.advance(1)
    assert runner.run_next("a") == 0.0
    assert small.get().is_over and not large.get().is_over, "the small one does not wait for the large one"
    clock.advance(11)
    assert runner.run_next("b") == 0.0, "a died"
    assert large.get().done == 2 * PAGE
    assert not large.wait(0).is_over


def test_an_operation_that_cannot_go_on_here_is_left_to_others(
    app: App, store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Its filter or its act may be of a newer release; the operations after it are done, and the turn is free for a process that can do it."""
    failed(store, PAGE + 1)
    newer = app.jobs.retry_many("state:failed kind:welcome", reason="x")
    execute(store, f"UPDATE {{p}}operation SET filter = 'colour:red' WHERE id = '{newer.id}'")
    clock.advance(1)
    good = app.jobs.retry_many("state:failed", reason="x")
    runner, other = OperationRunner(app.parts), OperationRunner(app.parts)
    assert runner.run_next("a") == 0.0 and newer.get().done == 0
    assert f"operation {newer.id} (retry) cannot go on here" in caplog.text and "colour" in caplog.text
    assert other.take_turn("b"), "the turn was given back"
    other.give_turn("b")
    while (wait := runner.run_next("a")) == 0.0:
        clock.advance(1)
    assert good.get().is_over and wait is not None and wait > 1
    runner.give_turn("a")
    with pytest.raises(FilterError, match="colour"):
        newer.wait()
    execute(store, f"UPDATE {{p}}operation SET filter = 'state:queued' WHERE id = '{newer.id}'")
    assert other.run_next("b") == 0.0, "another process has not left it"
    assert newer.stop("of a newer release") and newer.get().is_over


def test_a_worker_remembers_which_operation_it_left_to_others(app: App, store: Store) -> None:
    """It would try the same page again at once, for ever, and the operations behind it would wait."""
    failed(store, 1)
    newer = app.jobs.retry_many("state:failed kind:welcome", reason="x")
    execute(store, f"UPDATE {{p}}operation SET filter = 'colour:red' WHERE id = '{newer.id}'")
    assert app.parts.run_operations("a") == 0.0
    assert (wait := app.parts.run_operations("a")) is not None and wait > 1
    newer.stop("of a newer release")


def test_a_worker_does_operations_in_the_background(app: App, stores: Any, store_url: str) -> None:
    store = stores(store_url)
    with App(store=store) as served:

        @served.job
        def other() -> None: ...

        failed(store, 120)
        worker = served.worker()
        worker.start()
        try:
            handle = served.jobs.retry_many("state:failed", reason="x")
            eventually(  # a read: the worker does the pages
                lambda: handle.get().is_over, "the worker to end the operation"
            )
        finally:
            worker.stop()
        assert handle.get().done == 120


# ---------------------------------------------------------------------- asking


def test_an_empty_filter_is_refused_unless_all_is_said(app: App, store: Store) -> None:
    failed(store, 2)
    for only in ("", None, "  "):
        for begin in (app.jobs.retry_many, app.jobs.cancel_many):
            with pytest.raises(ConfigError, match="all=True"):
                begin(only, reason="x")
    assert not app.operations.list().operations and not app.audit.list().records
    assert app.jobs.retry_many(all=True, reason="x").wait().done == 2


def test_a_dry_run_counts_and_stores_nothing(app: App, store: Store) -> None:
    failed(store, 3)
    handle = app.jobs.retry_many("state:failed", reason="x", dry_run=True)
    assert (handle.matched, handle.wait().state, handle.stop()) == (3, OperationState.DRY_RUN, False)
    assert not app.operations.list().operations and not app.audit.list().records


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"act": "retrie"}, r"retrie.*did you mean retry"),
        ({"act": "cancel", "reason": None}, "reason"),
        ({"act": "delete", "reason": " "}, "reason"),
        ({"act": "priority"}, "0 to 9"),
        ({"act": "priority", "options": {"priority": 11}}, "0 to 9"),
        ({"act": "retry", "options": {"dependants": True}}, r"dependants.*dependents"),
        ({"act": "retry", "options": {"dependents": 1}}, "True or False"),
        ({"act": "cancel", "options": {"dependents": True}}, "dependents"),
        ({"act": "retry", "only": "stat:failed"}, "state"),
    ],
)
def test_bad_requests_are_refused(app: App, given: dict[str, Any], match: str) -> None:
    with pytest.raises(Exception, match=match):
        app.operations.start(**{"only": "state:failed", "reason": "x", **given})
    assert not app.operations.list().operations


def test_a_count_that_reached_its_limit_says_so(
    app: App, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed(store, 5)
    monkeypatch.setattr(JobReading.count, "__kwdefaults__", {"cap": 3})
    handle = app.jobs.retry_many("state:failed kind:welcome", reason="x")
    assert (handle.matched, handle.begun.is_exact) == (3, False)
    assert handle.wait().done == 5, "all of them, all the same"
    assert not handle.get().is_exact


def test_lists_of_operations_are_paged_and_filtered(app: App) -> None:
    ids = [app.jobs.retry_many("state:failed", reason="x").id for _ in range(3)]
    app.operations.stop(ids[1], "x")
    first = app.operations.list(limit=2)
    assert [one.id for one in first.operations] == [ids[2], ids[1]]
    rest = app.operations.list(limit=2, cursor=first.next_cursor)
    assert [one.id for one in rest.operations] == [ids[0]] and rest.next_cursor is None
    assert [one.id for one in app.operations.list(state="stopped").operations] == [ids[1]]
    for bad in ({"limit": 0}, {"cursor": "x"}, {"state": "odd"}):
        with pytest.raises(ConfigError):
            app.operations.list(**bad)


def test_operations_work_from_coroutines(app: App, store: Store) -> None:
    failed(store, 2)

    async def acts() -> int:
        handle = await app.jobs.retry_many_async("state:failed", reason="x")
        assert not (await handle.get_async()).is_over
        done = (await handle.wait_async()).done
        await app.jobs.cancel_many_async("kind:welcome", reason="x")
        return done

    assert asyncio.run(acts()) == 2
