"""Recording outcomes: one verdict per attempt, and what each outcome leaves behind."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, one, state
from windlass.clock import ManualClock
from windlass.errors import PayloadError, StoreError, WindlassError
from windlass.features import Store
from windlass.model import (
    Completed,
    JobError,
    Json,
    Retried,
    State,
    Verdict,
)

pytestmark = pytest.mark.older_postgres


def test_a_completed_job_keeps_its_result_and_its_times(store: Store, clock: ManualClock) -> None:
    job_id = one(store, args={"a": 1}, correlation_id="c-1")
    created = clock.now()
    clock.advance(1)
    holder = store.join()
    lease = claim_one(holder)
    started = clock.now()
    clock.advance(2)
    assert holder.complete(lease, {"answer": 42}) is Verdict.RECORDED
    job = store.jobs.get(job_id)
    assert job.state is State.COMPLETED and job.result == {"answer": 42} and job.error is None
    assert (job.created_at, job.started_at, job.finished_at) == (created, started, clock.now())
    assert job.args == {"a": 1} and job.attempt == 1 and job.correlation_id == "c-1"
    assert store.jobs.attempts(job_id) == [], "history itself is the timeline of a job that ended at once"
    assert_counts_are_true(store)


@pytest.mark.parametrize(
    "result",
    [
        None,
        0,
        "",
        "text",
        [1, 2],
        {"k": None},
        True,
        'a "quote" \\ \\u0041 \n\t Õ 🚀',
        {"\\": '"'},
        1e300,
        "null",
    ],
)
def test_any_json_value_may_be_a_result(shared_store: Store, result: object) -> None:
    job_id = one(shared_store)
    holder = shared_store.join()
    holder.complete(claim_one(holder), result)
    assert shared_store.jobs.get(job_id).result == result


@pytest.mark.parametrize("text", ["{bad", "1] , 2", "NaN", "", '{"a":1}}', "'a'"])
def test_text_that_only_claims_to_be_json_is_refused_by_the_database(shared_store: Store, text: str) -> None:
    """As a child process may send it that a handler has broken; the job stays held, and its neighbour's end is not touched."""
    ids = [one(shared_store), one(shared_store)]
    holder = shared_store.join()
    first, second = claim_one(holder), claim_one(holder)
    with pytest.raises(StoreError):
        holder.record([Completed(first, Json(text)), Completed(second)])
    assert {state(shared_store, job_id) for job_id in ids} == {State.PROCESSING}
    holder.complete(second)


def test_a_result_that_is_not_json_is_refused_and_the_job_stays_held(store: Store) -> None:
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    with pytest.raises(PayloadError, match="result"):
        holder.complete(lease, {"x": object()})
    assert state(store, job_id) is State.PROCESSING
    assert holder.complete(lease, "fine") is Verdict.RECORDED


def test_a_failed_job_keeps_a_structured_error_and_the_traceback_apart(
    store: Store, clock: ManualClock
) -> None:
    """The time is that of the database, and the same wherever the error is read."""
    job_id = one(store, correlation_id="c-9")
    holder = store.join()
    error = JobError(
        type="ValueError", code="bad_county", message="no such county", traceback="Tb", details={"x": 1}
    )
    assert holder.fail(claim_one(holder), error) is Verdict.RECORDED
    job = store.jobs.get(job_id)
    assert job.state is State.FAILED and job.traceback == "Tb"
    assert job.error == {
        "type": "ValueError",
        "code": "bad_county",
        "message": "no such county",
        "phase": "work",
        "attempt": 1,
        "correlation_id": "c-9",
        "details": {"x": 1},
        "at": clock.now().isoformat(),
    }
    assert "Tb" not in str(job.error)
    assert job.finished_at == clock.now() and clock.now().isoformat().endswith("+00:00")
    assert [span.error for span in store.jobs.timeline(job_id)] == [job.error]
    clock.advance(60)
    store.jobs.retry(job_id)
    assert [attempt.error for attempt in store.jobs.attempts(job_id)] == [job.error]
    assert_counts_are_true(store)


def test_errors_with_unstorable_or_endless_text_are_stored_all_the_same(store: Store) -> None:
    """I-17: a bad message must not keep a job processing."""
    job_id = one(store)
    holder = store.join()
    holder.fail(
        claim_one(holder),
        JobError(type="E", code="c", message="a\x00b\ud800" + "x" * 100_000, traceback="t" * 200_000),
    )
    job = store.jobs.get(job_id)
    assert job.state is State.FAILED and job.error is not None
    assert len(job.error["message"]) < 9_000 and len(job.traceback or "") < 65_000


def test_a_retry_waits_its_delay_and_keeps_what_went_wrong(store: Store, clock: ManualClock) -> None:
    """A retry is a scheduled job, not a sleeping processor."""
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    started = clock.now()
    clock.advance(1)
    assert holder.retry_later(lease, BOOM, timedelta(seconds=30)) is Verdict.RECORDED
    job = store.jobs.get(job_id)
    assert job.state is State.SCHEDULED and job.reason == "retry"
    assert job.run_at == clock.now() + timedelta(seconds=30) and job.started_at == started
    (attempt,) = store.jobs.attempts(job_id)
    assert (attempt.outcome, attempt.attempt, attempt.phase, attempt.generation) == ("retried", 1, "work", 1)
    assert (attempt.started_at, attempt.ended_at, attempt.traceback) == (started, clock.now(), "Traceback …")
    assert attempt.error is not None and attempt.error["code"] == "boom"
    assert_counts_are_true(store)
    assert not holder.claim("work", 1)
    clock.advance(30)
    store.upkeep.promote()
    second = claim_one(holder)
    assert second.attempt == 2 and second.token > lease.token
    holder.complete(second)
    done = store.jobs.get(job_id)
    assert done.started_at == started and done.attempt == 2


def test_a_retry_of_the_last_attempt_is_a_failure(store: Store, clock: ManualClock) -> None:
    """I-14: the budget is not the caller's to overdraw."""
    job_id = one(store, max_attempts=2)
    holder = store.join()
    holder.retry_later(claim_one(holder), BOOM, timedelta(0))
    store.upkeep.promote()
    holder.retry_later(claim_one(holder), BOOM, timedelta(0))
    job = store.jobs.get(job_id)
    assert job.state is State.FAILED and job.attempt == 2 and job.error is not None
    assert [attempt.attempt for attempt in store.jobs.attempts(job_id)] == [1]
    assert_counts_are_true(store)


def test_a_retry_that_does_not_count_gives_the_attempt_back(store: Store) -> None:
    job_id = one(store, max_attempts=1)
    holder = store.join()
    holder.record([Retried(claim_one(holder), BOOM, timedelta(0), counted=False)])
    assert store.jobs.get(job_id).attempt == 0
    store.upkeep.promote()
    assert claim_one(holder).attempt == 1


def test_a_crashed_retry_makes_a_suspect(store: Store) -> None:
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    assert not lease.is_suspect
    holder.record([Retried(lease, BOOM, timedelta(0), crashed=True)])
    assert store.jobs.get(job_id).crashes == 1
    store.upkeep.promote()
    suspect = claim_one(holder)
    assert suspect.is_suspect and suspect.crashes == 1
    holder.record([Retried(suspect, BOOM, timedelta(0))])
    store.upkeep.promote()
    still = claim_one(holder)
    assert still.is_suspect and still.crashes == 1


def test_advance_stores_the_output_and_moves_the_job_in_one_commit(store: Store, clock: ManualClock) -> None:
    """I-20."""
    job_id = one(store, "site", phase="fetch", max_attempts=3, priority=8)
    holder = store.join()
    clock.advance(1)
    lease = claim_one(holder, "fetch")
    clock.advance(1)
    assert holder.advance(lease, "parse", {"title": "x"}, max_attempts=7) is Verdict.RECORDED
    job = store.jobs.get(job_id)
    assert (job.phase, job.state, job.attempt, job.max_attempts, job.priority) == (
        "parse",
        State.QUEUED,
        0,
        7,
        8,
    )
    assert [(output.phase, output.name, output.value) for output in job.outputs] == [
        ("fetch", "", {"title": "x"})
    ]
    assert job.run_at == clock.now() and job.started_at == lease.claimed_at
    (attempt,) = store.jobs.attempts(job_id)
    assert (attempt.outcome, attempt.phase, attempt.attempt) == ("advanced", "fetch", 1)
    assert_counts_are_true(store)
    assert not holder.claim("fetch", 1)
    second = claim_one(holder, "parse")
    assert second.attempt == 1 and second.kind == "site"
    holder.complete(second, "done")
    done = store.jobs.get(job_id)
    assert done.result == "done" and [output.phase for output in done.outputs] == ["fetch"]
    assert store.outputs.of(job_id) == [], "outputs left with the job"
    assert_counts_are_true(store)


def test_advance_starts_the_next_phase_without_crashes_or_checkpoint(store: Store) -> None:
    job_id = one(store, phase="a")
    holder = store.join()
    holder.record([Retried(claim_one(holder, "a"), BOOM, timedelta(0), crashed=True)])
    store.upkeep.promote()
    lease = claim_one(holder, "a")
    holder.checkpoint(lease, done=5, total=10, position=5)
    holder.advance(lease, "b")
    assert store.jobs.progress(job_id) is None and store.jobs.get(job_id).crashes == 0
    assert not claim_one(holder, "b").is_suspect


def test_a_released_job_keeps_its_place_and_its_attempts(store: Store, clock: ManualClock) -> None:
    """I-32: a release costs no attempt and sends nobody to the end of the queue."""
    first = one(store)
    clock.advance(1)
    one(store)
    holder = store.join()
    lease = claim_one(holder)
    assert lease.id == first
    assert holder.release(lease) is Verdict.RECORDED
    job = store.jobs.get(first)
    assert job.state is State.QUEUED and job.attempt == 0 and job.started_at is None
    assert store.jobs.attempts(first) == []
    assert_counts_are_true(store)
    again = store.join().claim("work", 1)[0]
    assert again.id == first and again.attempt == 1 and again.token > lease.token


def test_a_release_may_cost_the_attempt(store: Store) -> None:
    """A job that outran its time limit is released with an attempt counted."""
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    holder.release(lease, counted=True)
    job = store.jobs.get(job_id)
    assert job.attempt == 1 and job.started_at == lease.claimed_at
    assert len(store.jobs.attempts(job_id)) == 1


# ---------------------------------------------------------------------------------------------- effect transactions


def test_effect_and_completion_are_one_commit(store: Store) -> None:
    """I-6."""
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    _effects_table(store)
    with holder.transaction(lease) as tx:
        tx.connection.execute("INSERT INTO effects VALUES (1)")
        tx.complete({"ok": True})
    job = store.jobs.get(job_id)
    assert job.state is State.COMPLETED and job.result == {"ok": True}
    assert _effects(store) == 1
    holder.step()
    assert_counts_are_true(store)


def test_an_exception_takes_effect_and_completion_back(store: Store) -> None:
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    _effects_table(store)
    with pytest.raises(RuntimeError), holder.transaction(lease) as tx:
        tx.connection.execute("INSERT INTO effects VALUES (1)")
        tx.complete()
        raise RuntimeError
    assert state(store, job_id) is State.PROCESSING and _effects(store) == 0


def test_an_effect_can_advance_checkpoint_and_store_outputs(store: Store) -> None:
    job_id = one(store)
    holder = store.join()
    lease = claim_one(holder)
    _effects_table(store)
    with holder.transaction(lease) as tx:
        tx.connection.execute("INSERT INTO effects VALUES (1)")
        tx.checkpoint(done=1, total=2, position="a")
        assert tx.put_output([1], name="part").created
    assert tx.cancel_asked is False
    progress = store.jobs.progress(job_id)
    assert progress is not None and (progress.done, progress.total, progress.position) == (1, 2, "a")
    store.jobs.cancel(job_id)
    with holder.transaction(lease) as tx:
        tx.connection.execute("INSERT INTO effects VALUES (2)")
    assert tx.cancel_asked, "the bare fence reads the cancel from the locked row"
    with holder.transaction(lease) as tx:
        tx.checkpoint(done=2, total=2, position="b")
    assert tx.cancel_asked
    with holder.transaction(lease) as tx:
        tx.connection.execute("INSERT INTO effects VALUES (3)")
        tx.advance("next", "out")
    assert tx.verdict is Verdict.CANCELLED
    job = store.jobs.get(job_id)
    assert job.state is State.CANCELLED and _effects(store) == 3
    assert sorted((output.name, str(output.value)) for output in job.outputs) == [
        ("", "out"),
        ("part", "[1]"),
    ]
    with pytest.raises(WindlassError, match="not open"):
        _ = tx.connection


def _effects_table(store: Store) -> None:
    with store.db.effect(5) as tx:
        tx.connection.execute("CREATE TABLE effects (n integer)")


def _effects(store: Store) -> int:
    with store.db.effect(5) as tx:
        return int(tx.connection.execute("SELECT count(*) FROM effects").fetchone()[0])
