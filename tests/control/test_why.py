"""Why a job is not running: every code that the database decides, and several reasons at once."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import FrozenInstanceError
from datetime import timedelta
from pathlib import Path

import pytest

from tests.control.conftest import ANNA, BOSS
from tests.control.whys import (
    BAD,
    CASES,
    LEASE,
    ON_INSTANCES,
    Bench,
    fan_in,
    lease_expired,
    limit,
    processing,
)
from windlass import App, JobNotFoundError
from windlass.clock import ManualClock
from windlass.control.why.codes import WhyCode
from windlass.model import After, DependencyPolicy, Flow, JobError, JobLimit, Rollup
from windlass.model.rule import Rule

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "why.md"


@pytest.fixture
def bench(app: App, clock: ManualClock) -> Bench:
    return Bench(app, clock)


@pytest.mark.parametrize("code", CASES, ids=str)
def test_the_code_of_a_job(bench: Bench, code: WhyCode) -> None:
    job = CASES[code](bench)
    why = bench.why(job)
    assert why.code is code
    assert why.sentence.isprintable() and not why.sentence.endswith(".")
    assert json.loads(json.dumps(dict(why.details))) == dict(why.details)
    assert asyncio.run(bench.app.jobs.why_async(job)) == why


def test_every_code_has_a_case_and_a_line_in_the_guide() -> None:
    """In the order of precedence, with its meaning."""
    assert {*CASES, *ON_INSTANCES, WhyCode.FAN_IN} == set(WhyCode)
    table = re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", GUIDE.read_text("utf-8"), re.MULTILINE)
    assert table == [(str(code), code.meaning) for code in WhyCode]


def test_sentences_say_what_happens_next(bench: Bench, clock: ManualClock) -> None:
    scheduled = bench.add(delay=timedelta(days=3))
    assert bench.why(scheduled).sentence == "is scheduled for 2026-01-04 00:00:00 UTC (in 3 days)"
    retried = CASES[WhyCode.RETRY](bench)
    assert (
        bench.why(retried).sentence
        == "retries at 00:04:00 UTC (in 4 min), attempt 2 of 5, after ValueError: bad row"
    )
    bench.app.acting_as(BOSS).phases.pause("welcome", "failover", lasts=600)
    why = bench.why(bench.add())
    assert (
        why.sentence
        == "the phase welcome is paused by boss since 00:00:00 UTC (failover), until 00:10:00 UTC (in 10 min)"
    )
    assert why.details["by"] == "boss" and why.details["until"] == "2026-01-01T00:10:00+00:00"


def test_a_result_cannot_be_changed(bench: Bench) -> None:
    why = bench.why(bench.add())
    with pytest.raises(FrozenInstanceError):
        why.code = WhyCode.ENDED  # type: ignore[misc]
    assert str(why).startswith("no_instance: no living instance")


# ---------------------------------------------------------------------- several reasons at once


def test_scheduled_paused_and_not_served(bench: Bench) -> None:
    job = bench.add(delay=timedelta(minutes=4))
    bench.store.phases.pause("welcome", "failover")
    assert bench.codes(job) == ["scheduled", "paused", "no_instance"]
    bench.clock.advance(300)
    assert bench.codes(job) == ["not_promoted", "paused", "no_instance"]
    bench.store.upkeep.promote()
    assert bench.codes(job) == ["paused", "no_instance"]
    bench.store.phases.resume("welcome")
    assert bench.codes(job) == ["no_instance"]
    bench.serve()
    assert bench.codes(job) == ["ahead"]


def test_a_retry_whose_phase_is_paused_and_whose_limit_is_full(bench: Bench) -> None:
    bench.store.limits.define([Flow(phase="welcome", limit=1)])
    limits = [JobLimit(phase="welcome", limit=1)]
    first, _ = bench.add(limits=limits), bench.add(limits=limits)
    bench.store.limits.let_in()
    holder = bench.serve()
    (lease,) = holder.claim("welcome", 1)
    holder.retry_later(lease, BAD, timedelta(minutes=4))
    bench.store.phases.pause("welcome", "failover")
    assert bench.codes(first) == ["retry", "limit", "paused"]


def test_a_job_that_waits_for_jobs_and_for_its_time(bench: Bench) -> None:
    job = bench.add(after=[After(bench.add())], delay=timedelta(minutes=4))
    assert bench.codes(job) == ["dependencies", "scheduled", "no_instance"]


def test_a_parent_that_failed_has_to_be_retried(bench: Bench) -> None:
    parent = bench.add()
    job = bench.add(after=[After(parent, DependencyPolicy.WAIT), After(bench.add("report"))])
    bench.store.dependencies.link()
    holder = bench.serve()
    (lease,) = holder.claim("welcome", 1)
    holder.fail(lease, BAD)
    why = bench.why(job)
    assert why.code is WhyCode.DEPENDENCIES and why.details["pending"] == 2
    assert {item["state"] for item in why.details["jobs"]} == {"failed", "queued"}
    assert f"{parent} did not complete and has to be retried" in why.sentence


def test_a_full_limit_of_a_paused_phase(bench: Bench) -> None:
    job = limit(bench)
    bench.store.phases.pause("welcome", "failover")
    assert bench.codes(job) == ["limit", "paused"]
    why = bench.why(job)
    assert why.details["taken"] == why.details["limit"] == 1 and len(why.details["held_by"]) == 1
    assert why.details["before"] == 1 and why.details["key"] == "kent"


def test_the_place_of_a_limit_becomes_free(bench: Bench) -> None:
    job = limit(bench)
    holder = bench.serve()
    for _ in range(2):
        (lease,) = holder.claim("welcome", 1)
        holder.complete(lease)
    assert bench.codes(job) == ["ahead"]


def test_a_cancel_of_a_job_whose_holder_is_dead(bench: Bench) -> None:
    job = processing(bench)
    bench.store.jobs.cancel(job, "ordered twice")
    assert bench.codes(job) == ["cancel_requested", "processing"]
    bench.clock.advance(LEASE * 2)
    assert bench.codes(job) == ["lease_expired", "cancel_requested", "no_instance"]
    assert "start a worker" in bench.why(job).sentence
    bench.serve()
    assert bench.codes(job) == ["lease_expired", "cancel_requested"]
    bench.store.recovery.recover()
    assert bench.why(job).details["state"] == "cancelled"


def test_a_dead_holder_is_recovered(bench: Bench) -> None:
    job = lease_expired(bench)
    bench.store.recovery.recover()
    assert bench.codes(job) == ["ahead"]


def test_a_holder_that_stopped_and_left_a_job_is_dead_at_once(bench: Bench) -> None:
    job = bench.add()
    holder = bench.serve()
    assert holder.claim("welcome", 1)
    holder.leave()
    assert bench.codes(job) == ["lease_expired", "no_instance"]


def test_what_keeps_every_instance_from_a_claim(bench: Bench) -> None:
    """Each instance for a reason of its own; one that could claim the job makes all of them void."""
    held = {"phases": {"welcome": {"held": {"next": "b", "queued": 9, "most": 3}}}}
    job = bench.add()
    bench.serve("welcome", **held)
    assert bench.codes(job) == ["backpressure"]
    bench.serve("welcome", full=True, running=4, max_concurrent_calls=4)
    assert bench.codes(job) == ["backpressure", "instance_cap"]
    bench.serve("welcome", quiet=30, lock_refused={job: None})
    assert bench.codes(job) == ["backpressure", "quiet", "lock_held", "instance_cap"]
    bench.store.phases.pause("welcome", "failover")
    assert bench.codes(job)[:2] == ["paused", "backpressure"]
    bench.store.phases.resume("welcome")
    bench.serve("welcome", full=False)
    assert bench.codes(job) == ["lock_held"], "another process holds the lock, whoever claims the job"
    bench.clock.advance(10)
    assert bench.why(job).details["as_of"] == "2026-01-01T00:00:00+00:00"


def test_an_instance_that_stops_does_not_serve(bench: Bench) -> None:
    bench.serve("welcome", state="stopping")
    assert bench.codes(bench.add()) == ["no_instance"]


@pytest.mark.parametrize(
    "facts",
    [{"phases": 7, "processors": "x", "quiet": "long", "lock_refused": 3, "isolated_waiting": None}, {}],
)
def test_boards_of_other_releases_are_read_as_far_as_they_go(bench: Bench, facts: dict[str, object]) -> None:
    queued, held = bench.add(), bench.add()
    holder = bench.serve("welcome")
    bench.store.boards.put(holder.id, json.dumps(facts))
    (first,) = holder.claim("welcome", 1)
    assert {bench.codes(job)[0] for job in (queued, held)} == {"processing", "ahead"}
    assert bench.codes(first.id) == ["processing"]


# ---------------------------------------------------------------------- the queue


def test_jobs_ahead_are_those_that_are_claimed_before_it(bench: Bench) -> None:
    bench.serve()
    low = bench.add(priority=1)
    others = [bench.add(priority=priority) for priority in (1, 5, 9, 0)]
    assert bench.why(low).details["ahead"] == 2
    assert [bench.why(job).details["ahead"] for job in others] == [3, 1, 0, 4]


def test_the_start_is_estimated_from_the_last_minutes(bench: Bench, clock: ManualClock) -> None:
    holder = bench.serve()
    minute = clock.now()
    bench.store.rollups.put(holder.id, [Rollup(minute=minute, phase="welcome", completed=100, failed=20)])
    clock.advance(60)
    holder.beat()
    job = [bench.add() for _ in range(11)][-1]
    why = bench.why(job)
    assert why.details["per_second"] == 2.0 and why.details["ahead"] == 10
    assert why.details["starts_at"] == "2026-01-01T00:01:05+00:00"
    assert "10 jobs are ahead" in why.sentence and "at about 00:01:05 UTC (in 5 s)" in why.sentence


def test_a_long_queue_is_not_counted_to_its_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("facts", "texts", "queued"):
        monkeypatch.setattr(f"windlass.control.why.{module}.CAP", 3)
    bench.serve()
    job = [bench.add() for _ in range(6)][-1]
    why = bench.why(job)
    assert (
        why.details["ahead"] == 3 and why.details["capped"] and why.sentence.startswith("3+ jobs are ahead")
    )


# ---------------------------------------------------------------------- ends and rules


def test_an_end_names_the_fan_in_that_lacks_others(bench: Bench) -> None:
    job = fan_in(bench)
    why = bench.why(job)
    (lacks,) = why.also
    assert (why.code, lacks.code) == (WhyCode.ENDED, WhyCode.FAN_IN)
    assert lacks.details["missing"] == ["south"] and lacks.details["key"] == ["2026-05"]
    assert "it lacks south" in lacks.sentence
    by_key = bench.app.rules.why("books", "2026-05")
    assert (by_key.code, by_key.details) == (WhyCode.FAN_IN, lacks.details)
    assert bench.app.rules.why("books", ["2026-06"]).code is WhyCode.UNKNOWN
    assert asyncio.run(bench.app.rules.why_async("books", "2026-05")) == by_key
    bench.add("south", args={"period": "2026-05"})
    holder = bench.serve("south")
    (lease,) = holder.claim("south", 1)
    holder.complete(lease)
    assert bench.codes(job) == ["ended"] and bench.app.rules.why("books", "2026-05").code is WhyCode.UNKNOWN


def test_an_end_names_the_child_that_waits_for_its_retry(bench: Bench) -> None:
    rule = Rule(
        name="each", parents=("north",), create="report", phase="report", policy=DependencyPolicy.WAIT
    )
    bench.store.rules.define([rule])
    job = bench.add("north")
    holder = bench.serve("north")
    (lease,) = holder.claim("north", 1)
    holder.fail(lease, BAD)
    assert bench.codes(job) == ["ended", "fan_in"]
    assert "when this north completes: it waits for a retry" in bench.why(job).also[0].sentence


def test_a_failed_part_of_a_fan_in_has_to_be_retried(bench: Bench) -> None:
    fan_in(bench)
    job = bench.add("south", args={"period": "2026-05"})
    holder = bench.serve("south")
    (lease,) = holder.claim("south", 1)
    holder.fail(lease, BAD)
    (lacks,) = bench.why(job).also
    assert lacks.details["failed"] == ["south"] and "south did not complete" in lacks.sentence


def test_a_failed_end_says_what_failed(bench: Bench) -> None:
    job = bench.add(max_attempts=1)
    holder = bench.serve()
    (lease,) = holder.claim("welcome", 1)
    holder.fail(lease, BAD)
    why = bench.why(job)
    assert (
        why.sentence
        == "failed at 00:00:00 UTC in attempt 1 of 1 after ValueError: bad row; it runs again if it is retried"
    )


@pytest.mark.parametrize("job_id", ["", "x", "\x1b[31m", "01a1ee9a-298c-7123-990c-ace0d174fbdf"])
def test_a_job_that_is_not_there_is_unknown_to_those_who_see_all(bench: Bench, job_id: str) -> None:
    why = bench.why(job_id)
    assert why.code is WhyCode.UNKNOWN and why.sentence.isprintable() and "pruned" in why.sentence
    with pytest.raises(JobNotFoundError):
        bench.app.acting_as(ANNA).jobs.why(job_id)


def test_sentences_have_no_secrets_and_no_control_characters(bench: Bench) -> None:
    job = bench.add(max_attempts=5)
    holder = bench.serve()
    (lease,) = holder.claim("welcome", 1)
    nasty = "password=hunter2\n\x1b[31mat postgresql://me:hunter2@db/x \u202e" + "x" * 10_000
    holder.retry_later(lease, JobError(type="Val\nue", code="error", message=nasty, traceback=None), LEASE)
    why = bench.why(job)
    text = why.sentence + json.dumps(dict(why.details), ensure_ascii=False)
    assert "hunter2" not in text and text.isprintable() and len(why.sentence) < 600
    held = processing(bench)
    bench.store.jobs.cancel(held, "token=hunter2\n")
    assert bench.why(held).sentence.isprintable() and "hunter2" not in str(bench.why(held))
    bench.store.phases.pause("welcome", "see https://ops:hunter2@wiki/\n")
    paused = bench.why(bench.add())
    assert paused.sentence.isprintable() and "hunter2" not in f"{paused} {paused.details}"
