"""Jobs that come of other jobs, as handlers and rules make them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.shop import Shop
from windlass.app.app import App
from windlass.errors import ConfigError
from windlass.handlers.context import Context
from windlass.model import Defined, Job, JobFilter, NewJob, State
from windlass.model.retry import fixed
from windlass.testing import Sandbox

pytestmark = pytest.mark.timing


def test_a_job_enqueued_by_a_handler_inherits_its_correlation_id(shop: Shop) -> None:
    """By itself, inside a transaction, and not where it brings one."""

    @shop.app.job
    def leaf() -> None: ...

    @shop.app.job
    def parent(ctx: Context) -> None:
        ctx.enqueue(NewJob(kind="leaf"))
        ctx.enqueue(NewJob(kind="leaf", correlation_id="its own"))
        with ctx.transaction() as tx:
            tx.enqueue(NewJob(kind="leaf"))

    parent.options(correlation_id="order-7").enqueue()
    shop.drained(shop.serve())
    found = shop.store.jobs.list(JobFilter(kind="leaf")).jobs
    assert sorted(job.correlation_id for job in found) == ["its own", "order-7", "order-7"]


def found(shop: Shop, kind: str) -> list[Job]:
    return sorted(shop.store.jobs.list(JobFilter(kind=kind), limit=1000).jobs, key=lambda job: job.id)


def define_reports(app: App, ran: list[Any]) -> None:
    @app.job(name="hours-report")
    async def hours(period: str, county: str) -> int:
        ran.append(("hours", period))
        return 40

    @app.job(name="leave-report")
    def leave(period: str, county: str) -> int:
        ran.append(("leave", period))
        return 2

    @app.job
    def summary(period: str, county: str, hours: int) -> str:
        ran.append(("summary", period, county, hours))
        return f"{period}: {hours}"

    @app.job
    def mail(text: str) -> None:
        ran.append(("mail", text))

    app.when_all(
        ["hours-report", "leave-report"],
        create="summary",
        key=["args.period", "args.county"],
        args={"period": "args.period", "county": "args.county", "hours": ("hours-report", "result")},
    )
    app.when("summary", create="mail", args={"text": "result"})


def test_rules_make_jobs_as_their_parents_complete(shop: Shop) -> None:
    """From parents to the mail, by workers that only know their handlers."""
    ran: list[Any] = []
    define_reports(shop.app, ran)
    for period in ("06", "07"):
        for kind in ("hours-report", "leave-report"):
            shop.app.parts.submitter.submit(
                NewJob(kind=kind, args={"period": period, "county": "Harju"}, correlation_id=f"of {period}")
            )
    engine = shop.serve()
    shop.until(lambda: len(found(shop, "mail")) == 2)
    shop.drained(engine)
    assert sorted(item for item in ran if item[0] == "summary") == [
        ("summary", "06", "Harju", 40),
        ("summary", "07", "Harju", 40),
    ]
    assert sorted(item[1] for item in ran if item[0] == "mail") == ["06: 40", "07: 40"]
    assert {job.correlation_id for job in found(shop, "mail")} == {"of 06", "of 07"}
    assert {job.state for kind in ("summary", "mail") for job in found(shop, kind)} == {State.COMPLETED}
    assert shop.store.rules.open() == []


def test_a_rule_fires_where_its_code_is_not(shop: Shop) -> None:
    """Design: an instance of another application, which knows the parent alone, makes the child."""
    define_reports(shop.app, [])
    shop.app.sync()
    other = App(shop.app.url, settings=shop.app.settings)
    with other:

        @other.job(name="hours-report")
        def hours(period: str, county: str) -> int:
            return 7

        @other.job(name="leave-report")
        def leave(period: str, county: str) -> int:
            return 8

        for kind in (hours, leave):
            kind.enqueue(period="07", county="Harju")
        engine = other.worker()
        engine.start()
        try:
            shop.until(lambda: found(shop, "summary"))
        finally:
            engine.stop()
    (job,) = found(shop, "summary")
    assert job.state is State.QUEUED and job.args == {"period": "07", "county": "Harju", "hours": 7}
    # Its handlers are in the same module as those rules, which it lacks: it marks them, and they fire all the same.
    assert None not in {item.gone_at for item in shop.store.rules.list()}


def test_a_failed_parent_is_seen_and_resumes_when_it_is_retried(shop: Shop) -> None:
    """Nothing waits without being visible, and nothing else has to run again."""
    broken = [True]

    @shop.app.job(retry=fixed(1, wait=0.01))
    def left(n: int) -> None:
        if broken:
            raise ValueError("no")

    @shop.app.job
    def right(n: int) -> None: ...

    @shop.app.job
    def both(n: int) -> None: ...

    shop.app.when_all([left, right], create=both, key=["args.n"])
    engine = shop.serve()
    failing, good = left.enqueue(n=1), right.enqueue(n=1)
    shop.until(lambda: len(shop.store.rules.open()) == 1 and not shop.store.rules.open()[0].missing[1:])
    shop.until(lambda: shop.job(good).state is State.COMPLETED and shop.job(failing).state is State.FAILED)
    (seen,) = shop.store.rules.open()
    assert seen.is_cancelled and seen.missing == ["left"]
    assert [part.job_id for part in seen.complete] == [good.id]
    broken.clear()
    shop.store.jobs.retry(failing.id)
    shop.until(lambda: found(shop, "both"))
    shop.drained(engine)
    assert shop.store.rules.open() == []


def test_a_worker_that_starts_puts_rules_into_the_database(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    define_reports(shop.app, [])
    with caplog.at_level("INFO", "windlass"):
        shop.serve()
    assert [item.rule.name for item in shop.store.rules.list()] == [
        "hours-report+leave-report->summary",
        "summary->mail",
    ]
    assert any(record.__dict__.get("event") == "rule.defined" for record in caplog.records)
    assert shop.app.sync().rules == Defined()
    shop.until(lambda: not shop.store.upkeep.agenda().has("new_kinds"))


def test_a_worker_does_not_start_with_rules_that_cannot_work(shop: Shop) -> None:
    shop.app.job(name="a")(lambda: None)
    shop.app.when("a", create="nowhere")
    with pytest.raises(ConfigError, match="nowhere"):
        shop.serve()
    assert shop.store.rules.list() == []


def test_jobs_that_waited_for_the_worker_are_told_of_its_rules(shop: Shop) -> None:
    """They were enqueued before anybody knew the rule."""

    @shop.app.job
    def a() -> None: ...

    @shop.app.job
    def b() -> None: ...

    jobs = a.enqueue_many([{}] * 20)
    shop.app.when(a, create=b)
    engine = shop.serve()
    shop.until(lambda: len(found(shop, "b")) == len(jobs))
    shop.drained(engine)


def test_a_sandbox_follows_the_rules() -> None:
    ran: list[Any] = []
    app = App("sqlite://")
    define_reports(app, ran)
    with Sandbox(app) as sandbox:
        for kind in ("hours-report", "leave-report"):
            sandbox.app.enqueue(kind, period="07", county="Harju")
        assert sandbox.drain() == 4
        assert ran[-2:] == [("summary", "07", "Harju", 40), ("mail", "07: 40")]
