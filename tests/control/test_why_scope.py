"""What an actor reads of other people's jobs when asking why a job does not run: counts, and neither ids nor keys nor people."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.control.conftest import ANNA, BERT, BOSS, CARA, OPS
from tests.control.whys import BAD, Bench
from windlass import App, JobNotFoundError, NotAllowedError, Principal
from windlass.clock import ManualClock
from windlass.control.why.codes import Why, WhyCode
from windlass.model import After, Flow, JobLimit


@pytest.fixture
def bench(app: App, clock: ManualClock) -> Bench:
    return Bench(app, clock)


def why(bench: Bench, who: Principal, job_id: str) -> Why:
    return bench.app.acting_as(who).jobs.why(job_id)


def text(found: Why) -> str:
    return json.dumps([[str(item), dict(item.details)] for item in (found, *found.also)])


def own(bench: Bench, who: Principal, **options: Any) -> str:
    return bench.add(principal=who, **options)


def test_jobs_of_others_are_refused_like_those_that_are_not_there(bench: Bench) -> None:
    job = own(bench, ANNA)
    plain = bench.add()
    assert {why(bench, who, job).code for who in (ANNA, OPS, BOSS)} == {WhyCode.NO_INSTANCE}
    for who, target in ((BERT, job), (CARA, job), (ANNA, plain), (OPS, plain)):
        with pytest.raises(JobNotFoundError):
            why(bench, who, target)
    with pytest.raises(NotAllowedError):
        bench.app.acting_as(ANNA).rules.why("books", "x")


def test_parents_of_others_are_counted(bench: Bench) -> None:
    foreign, mine = own(bench, BERT), own(bench, ANNA)
    job = own(bench, ANNA, after=[After(foreign), After(mine), After(bench.add())])
    found = why(bench, ANNA, job)
    assert found.details["pending"] == 3 and [item["id"] for item in found.details["jobs"]] == [mine]
    assert foreign not in text(found) and f"{mine} (queued) and 2 other jobs" in found.sentence
    assert {item["id"] for item in why(bench, OPS, job).details["jobs"]} == {foreign, mine}
    assert len(why(bench, BOSS, job).details["jobs"]) == 3


def test_holders_of_a_limit_that_are_others_are_counted(bench: Bench) -> None:
    bench.serve()
    bench.store.limits.define([Flow(phase="welcome", limit=2)])
    limits = [JobLimit(phase="welcome", limit=2)]
    foreign, mine, job = (own(bench, who, limits=limits) for who in (BERT, ANNA, ANNA))
    bench.store.limits.let_in()
    found = why(bench, ANNA, job)
    assert found.code is WhyCode.LIMIT and found.details["held_by"] == [mine]
    assert f"by {mine} and 1 other job" in found.sentence and foreign not in text(found)
    assert why(bench, CARA, own(bench, CARA, limits=limits)).details["held_by"] == []
    assert set(why(bench, BOSS, job).details["held_by"]) == {foreign, mine}


def test_a_pause_shows_no_person_and_no_reason(bench: Bench) -> None:
    bench.app.acting_as(BOSS).phases.pause("welcome", "customer cara sends too much", lasts=60)
    job = own(bench, ANNA)
    found = why(bench, ANNA, job)
    assert found.code is WhyCode.PAUSED and "00:01:00 UTC" in found.sentence
    assert "cara" not in text(found) and "boss" not in text(found)
    assert "cara" in text(why(bench, BOSS, job))


def test_a_lock_shows_no_holder(bench: Bench) -> None:
    job = own(bench, ANNA)
    bench.serve("welcome", lock_refused={job: "request-of-bert"})
    assert "bert" not in text(why(bench, ANNA, job)) and "bert" in text(why(bench, BOSS, job))


def test_a_job_that_ended_with_a_parent_of_another_does_not_name_it(bench: Bench) -> None:
    foreign = own(bench, BERT)
    job = own(bench, ANNA, after=[After(foreign)])
    bench.store.dependencies.link()
    holder = bench.serve()
    (lease,) = holder.claim("welcome", 1)
    holder.fail(lease, BAD)
    found = why(bench, ANNA, job)
    assert found.code is WhyCode.ENDED and foreign not in text(found)
    assert "a job that this job waited for did not complete" in found.sentence
    assert foreign in text(why(bench, BOSS, job))


def test_a_fan_in_shows_kinds_and_no_jobs(bench: Bench) -> None:
    from tests.control.whys import fan_in

    fan_in(bench)
    foreign = bench.add("north", args={"period": "2026-07"}, principal=BERT)
    mine = bench.add("south", args={"period": "2026-07"}, principal=ANNA)
    holder = bench.serve("north", "south")
    (lease,) = holder.claim("south", 1)
    holder.complete(lease)
    (lacks,) = why(bench, ANNA, mine).also
    assert lacks.details["missing"] == ["north"] and "arrived" not in lacks.details
    assert foreign not in text(lacks)


def test_other_jobs_of_the_queue_are_counted(bench: Bench) -> None:
    bench.serve()
    foreign = own(bench, BERT)
    job = own(bench, ANNA)
    found = why(bench, ANNA, job)
    assert found.details["ahead"] == 1 and foreign not in text(found)
