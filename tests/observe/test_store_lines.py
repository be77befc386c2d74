"""What the store says of jobs that nobody holds, at DEBUG, and that it costs nothing while nobody reads it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.engine.shop import Shop
from tests.observe.lines import Lines, written
from windlass.engine.one_job import OneJobRunner
from windlass.model import After, NewJob
from windlass.model.rule import Rule
from windlass.store.jobs import lines as store_lines

JOB = {"job_id", "kind", "phase", "attempt", "max_attempts", "correlation_id"}


@pytest.fixture(params=["sqlite", "postgresql"])
def shop(
    request: pytest.FixtureRequest, fresh_postgres: Any, fresh_sqlite: Callable[[], str]
) -> Iterator[Shop]:
    made = Shop(fresh_sqlite() if request.param == "sqlite" else fresh_postgres())
    yield made
    made.close()


def told(lines: Lines, event: str) -> list[dict[str, Any]]:
    found = [line for line in lines.objects if line["event"] == event]
    for line in found:
        assert line["level"] == "debug" and (line["event"].startswith("phase.") or line.keys() >= JOB), line
    return found


def test_enqueues_are_told_whatever_their_way(shop: Shop) -> None:
    @shop.app.job
    def work(n: int = 0) -> None: ...

    with written() as lines:
        plain = work.options(correlation_id="req-1").enqueue(n=1)
        keyed = work.options(key="one", delay=60).enqueue(n=2)
        again = work.options(key="one", delay=60).enqueue(n=2)
        many = work.enqueue_many({"n": n} for n in range(3))
        bulk = work.enqueue_many({"n": n} for n in range(600))
    found = {line["job_id"]: line for line in told(lines, "job.enqueued")}
    assert again.id == keyed.id and len(found) == 2 + 3 + 600, "one that was there already is not enqueued"
    assert found[plain.id]["correlation_id"] == "req-1" and found[plain.id]["phase"] == "work"
    assert found[keyed.id]["fields"] == {"delay_seconds": 60.0}
    assert {job.id for job in [*many, *bulk]} <= found.keys()
    assert found[bulk[-1].id]["correlation_id"] == bulk[-1].id


def test_a_cancel_a_retry_and_a_pause_are_told(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    parent = work.options(correlation_id="req-1").enqueue()
    (child,) = shop.store.enqueue([NewJob(kind="work", after=[After(parent.id)])])
    shop.store.dependencies.link()
    with written() as lines:
        shop.store.jobs.cancel(parent.id, reason="not wanted")
        shop.store.jobs.retry(parent.id)
        shop.store.phases.pause("work", "stock-taking")
        shop.store.phases.resume("work")
        shop.store.phases.resume("work")
    first, second = sorted(told(lines, "job.cancelled_unheld"), key=lambda line: line["job_id"] == child.id)
    assert (first["job_id"], first["message"], first["correlation_id"]) == (parent.id, "not wanted", "req-1")
    assert second["job_id"] == child.id and second["correlation_id"] == "req-1"
    (retried,) = told(lines, "job.retried_by_hand")
    assert retried["job_id"] == parent.id and retried["fields"]["generation"] == 2
    (paused,) = told(lines, "phase.paused")
    assert (paused["phase"], paused["fields"]["reason"]) == ("work", "stock-taking")
    assert [line["phase"] for line in told(lines, "phase.resumed")] == ["work"], "the second changed nothing"


def test_the_child_of_a_rule_is_told(shop: Shop) -> None:
    @shop.app.job
    def parent() -> None: ...

    @shop.app.job
    def child() -> None: ...

    shop.store.rules.put(Rule(name="chain", parents=("parent",), create="child", phase="child"))
    job = parent.options(correlation_id="req-1").enqueue()
    with written() as lines:
        shop.drained(shop.serve())
    (line,) = told(lines, "rule.fired")
    assert (line["kind"], line["correlation_id"]) == ("child", "req-1")
    assert line["fields"] == {"rule": "chain", "parents": [job.id]}
    assert line["job_id"] in {one["job_id"] for one in told(lines, "job.enqueued")}


def test_claims_and_promotions_are_told(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    job, later = work.enqueue(), work.options(delay=0.2).enqueue()
    with written() as lines:
        shop.drained(shop.serve())
        shop.until(lambda: "job.promoted" in lines.text)  # another thread may run the job before it is told
    assert {line["job_id"] for line in told(lines, "job.claimed")} == {job.id, later.id}
    promoted = [line for line in lines.objects if line["event"] == "job.promoted"]
    assert [(line["phase"], line["fields"]["count"]) for line in promoted] == [("work", 1)]
    with (
        OneJobRunner(shop.store, shop.app.parts.registry, settings=shop.app.settings) as requests,
        written() as lines,
    ):
        asked = work.enqueue()
        requests.process(asked.id)
    assert [line["job_id"] for line in told(lines, "job.claimed")] == [asked.id]


def test_nobody_reads_it_and_nothing_is_made(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """One look at the level for a call, whatever the number of jobs."""
    looks: list[int] = []
    monkeypatch.setattr(store_lines.log, "isEnabledFor", lambda level: looks.append(level))

    def refuse(*arguments: object, **fields: object) -> None:
        raise AssertionError("nobody asked")

    monkeypatch.setattr(store_lines, "_log", refuse)

    @shop.app.job
    def work(n: int) -> None: ...

    work.enqueue(n=1)
    assert len(looks) == 1
    work.enqueue_many({"n": n} for n in range(700))
    assert len(looks) == 2
    assert logging.getLogger("windlass.store").getEffectiveLevel() > logging.DEBUG
