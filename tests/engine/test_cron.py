"""Schedules served by engines: on time, once, by whoever is there."""

from __future__ import annotations

import functools
import logging
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conformance.test_look import statements
from tests.engine.shop import QUICK, Shop
from tests.waiting import PATIENCE
from windlass.app.app import App
from windlass.arguments.importable import module_of
from windlass.errors import ConfigError, PayloadError
from windlass.handlers.context import Context
from windlass.model import NewSchedule, State
from windlass.observe import health

pytestmark = [pytest.mark.one_database, pytest.mark.timing]

EVERY_SECOND = "* * * * * *"


def due_of(correlation_id: str) -> datetime:
    return datetime.fromisoformat(correlation_id.rpartition("@")[2])


@pytest.mark.slow
def test_a_schedule_fires_on_time(shop: Shop) -> None:
    """Woken for each due time, and never before it: the look that would find it anyway is minutes away. How late it is, is printed."""
    lates: list[float] = []

    @shop.app.cron(EVERY_SECOND, missed="all")
    async def beat(ctx: Context) -> None:
        lates.append(time.time() - due_of(ctx._lease.correlation_id).timestamp())

    shop.serve(recovery=300.0)
    shop.until(lambda: len(lates) >= 4)
    print(f"late by {[round(late * 1000) for late in lates]} ms")
    ticks = shop.store.schedules.ticks("beat")
    assert min(tick.fired_at - tick.at for tick in ticks) >= timedelta(0)
    dues = sorted(tick.at for tick in ticks)
    assert dues == [dues[0] + n * timedelta(seconds=1) for n in range(len(dues))], "none is missing"


@pytest.mark.parametrize("shop", ["postgresql"], indirect=True)
@pytest.mark.parametrize("wrong_by", [-86_400.0, 300.0])
def test_the_clocks_of_workers_do_not_matter(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, wrong_by: float
) -> None:
    """Experiment 28: it is due when the database says so. (SQLite has no clock but the machine's.)"""
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + wrong_by)

    @shop.app.cron(EVERY_SECOND)
    async def beat() -> None: ...

    shop.serve()
    ticks = shop.until(lambda: ticks if len(ticks := shop.store.schedules.ticks("beat")) >= 3 else None)
    assert min(tick.fired_at - tick.at for tick in ticks) >= timedelta(0)
    assert abs(ticks[0].at.timestamp() - right()) < 60


@pytest.mark.slow
def test_engines_share_the_ticks_and_each_is_fired_once(shop: Shop) -> None:
    """I-27."""
    seen: list[tuple[str, str]] = []

    for number in range(5):

        @shop.app.cron(EVERY_SECOND, name=f"beat-{number}", missed="all")
        @shop.app.job(name=f"beat-{number}")
        async def beat(ctx: Context) -> None:
            seen.append((ctx._lease.kind, ctx._lease.correlation_id))

    engines = [shop.serve() for _ in range(3)]
    shop.until(lambda: len(seen) >= 20)
    for engine in engines:
        engine.stop()
    assert len(seen) == len(set(seen)), "a due time ran twice"
    for number in range(5):
        dues = sorted(tick.at for tick in shop.store.schedules.ticks(f"beat-{number}"))
        assert dues == [dues[0] + n * timedelta(seconds=1) for n in range(len(dues))]
    told = sum(engine.stats.report().count("ticks") for engine in engines)
    assert told == len(seen) + sum(count.queued for count in shop.store.phases.counts().values())


def test_a_schedule_made_while_engines_sleep_is_heard_of(shop: Shop) -> None:
    """By a hint, not by the look of every few seconds, which is minutes away here."""
    ran = threading.Event()

    @shop.app.job
    def later(n: int) -> None:
        ran.set()

    engine = shop.serve(recovery=300.0)
    shop.until(lambda: engine.report().listening)
    time.sleep(0.3)
    shop.store.schedules.put(NewSchedule(name="x", kind="later", args={"n": 1}, expression=EVERY_SECOND))
    assert ran.wait(PATIENCE)


def test_without_schedules_nothing_more_is_asked(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    shop.serve(recovery=0.1)
    with statements(shop.store) as seen:
        shop.until(lambda: seen.count("agenda") >= 3)
    assert not [verb for verb in seen if verb.startswith(("fire", "tick", "schedule"))]


@pytest.mark.slow
def test_a_paused_schedule_is_left_alone_and_resumed(shop: Shop) -> None:
    runs: list[float] = []

    @shop.app.cron(EVERY_SECOND)
    def beat() -> None:
        runs.append(time.time())

    def on_its_way() -> int:
        counts = shop.store.phases.counts()["beat"]
        return counts.queued + counts.processing

    shop.serve()
    shop.until(lambda: runs)
    shop.store.schedules.pause("beat", "a test")
    shop.until(lambda: shop.store.phases.counts()["beat"].completed == len(runs) and not on_its_way())
    count = len(runs)
    time.sleep(1.2)
    assert len(runs) == count
    shop.store.schedules.resume("beat")
    shop.until(lambda: len(runs) > count)


def _told(caplog: pytest.LogCaptureFixture) -> dict[str, dict[str, Any]]:
    """What was logged first of each event."""
    records = reversed(list(caplog.records))
    return {record.__dict__["event"]: record.__dict__ for record in records if "event" in record.__dict__}


def test_missed_ticks_are_made_up_for_and_told(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """No worker ran for an hour: one job, and a line that says so. The due times are two minutes away from now, or one of them could
    come while this test runs."""
    minutes = ",".join(str(minute) for minute in range((datetime.now(UTC).minute + 3) % 5, 60, 5))

    @shop.app.cron(f"{minutes} * * * *", missed="once")
    def sweep() -> None: ...

    shop.serve().stop()
    back = "- 3600000000" if shop.store.db.dialect == "sqlite" else "- interval '1 hour'"
    table = "windlass_schedule" if shop.store.db.dialect == "sqlite" else "windlass.schedule"
    shop.run(f"UPDATE {table} SET next_at = next_at {back}")
    with caplog.at_level(logging.DEBUG, "windlass.engine"):
        shop.serve()
        told = shop.until(
            lambda: {"schedule.missed", "schedule.fired"} <= (told := _told(caplog)).keys() and told
        )
    assert shop.store.schedules.get("sweep").last_job
    missed = told["schedule.missed"]
    assert (missed["schedule"], missed["jobs"], missed["is_capped"]) == ("sweep", 1, False)
    assert missed["skipped"] == 11
    assert told["schedule.fired"]["covers"] == missed["skipped"] + 1


def test_a_schedule_that_cannot_fire_is_told(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    @shop.app.cron(EVERY_SECOND)
    def bad() -> None: ...

    shop.serve().stop()
    table = "windlass_schedule" if shop.store.db.dialect == "sqlite" else "windlass.schedule"
    shop.run(f"UPDATE {table} SET expression = 'x'")
    caplog.clear()
    with caplog.at_level(logging.ERROR, "windlass.engine"):
        shop.serve(recovery=0.2)
        shop.until(lambda: shop.store.schedules.get("bad").state == "paused")
        shop.until(lambda: [r for r in caplog.records if r.__dict__.get("event") == "schedule.refused"])


def test_an_instance_that_does_not_know_a_zone_says_so_and_pauses_nothing(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    @shop.app.cron(EVERY_SECOND)
    def far() -> None: ...

    shop.serve().stop()
    table = "windlass_schedule" if shop.store.db.dialect == "sqlite" else "windlass.schedule"
    shop.run(f"UPDATE {table} SET tz = 'Mars/Base'")
    caplog.clear()
    with caplog.at_level(logging.WARNING, "windlass.engine"):
        engine = shop.serve(recovery=0.2)
        shop.until(lambda: health.states(engine.report()).get("schedule far") == health.DEGRADED)
        shop.until(lambda: [r for r in caplog.records if r.__dict__.get("event") == "schedule.left"])
    assert shop.store.schedules.get("far").state == "active"


# --------------------------------------------------------------------------------------------------- what code defines


def test_a_worker_that_starts_puts_schedules_into_the_database(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    @shop.app.cron("0 6 * * *", tz="Europe/Berlin", missed="all", cap=7, jitter=30, priority=8)
    def nightly() -> None: ...

    @shop.app.cron(
        "0 7 * * *", args={"county": "Kent"}, due_as="due", max_attempts=9, correlation_id="reports"
    )
    @shop.app.job(name="county-report")
    async def report(county: str, due: datetime, ctx: Context) -> str:
        return f"{county} {due.isoformat()}"

    sites = shop.app.pipeline("sites")

    @sites.phase("fetch")
    def fetch(url: str) -> None: ...

    @sites.phase("read")
    def read(url: str) -> None: ...

    shop.app.schedule("weekly-sites", "sites", "@weekly", args={"url": "a"}, priority=1)
    assert shop.store.schedules.list() == [], "a process that only submits writes nothing"
    with caplog.at_level(logging.INFO, "windlass.engine"):
        shop.serve()
    assert any(record.__dict__.get("event") == "schedule.defined" for record in caplog.records)
    county, night, weekly = shop.store.schedules.list()
    assert (night.name, night.kind, night.tz, night.missed, night.cap) == (
        "nightly",
        "nightly",
        "Europe/Berlin",
        "all",
        7,
    )
    assert (night.jitter, night.priority, night.max_attempts) == (timedelta(seconds=30), 8, 3)
    assert night.source.startswith(f"{__name__}:") and night.source.endswith("nightly")
    assert (county.name, county.kind, county.args, county.due_as) == (
        "county-report",
        "county-report",
        {"county": "Kent"},
        "due",
    )
    assert (county.max_attempts, county.correlation_id) == (9, "reports")
    assert (weekly.kind, weekly.phase, weekly.args, weekly.priority) == (
        "sites",
        "sites:fetch",
        {"url": "a"},
        1,
    )
    made = shop.store.schedules.run_now("county-report")
    shop.until(lambda: shop.job(made).state is State.COMPLETED)
    assert shop.job(made).result.startswith(f"Kent {datetime.now(UTC).year}")


def test_a_decorated_function_is_a_job_and_still_a_function(shop: Shop) -> None:
    @shop.app.cron("@daily")
    def twice(n: int = 2) -> int:
        return 2 * n

    assert twice(4) == 8 and twice.name == "twice"
    job = twice.enqueue(n=5)
    shop.drained(shop.serve())
    assert shop.job(job).result == 10


def test_what_is_gone_from_the_code_is_marked_when_the_next_worker_starts(shop: Shop) -> None:
    @shop.app.cron("@daily")
    def old() -> None: ...

    shop.serve().stop()
    with App(shop.app.url, settings=QUICK) as newer:

        @newer.cron("@daily")
        def other() -> None: ...

        engine = newer.worker()
        engine.start()
        engine.stop()
    assert {item.name: item.state for item in shop.store.schedules.list()} == {
        "old": "gone",
        "other": "active",
    }


def mistakes(app: App) -> dict[str, Any]:
    """Ways to get it wrong, each with the key that the error names."""

    def plain() -> None: ...

    def needs(user: int) -> None: ...

    job = app.job(name="job")(plain)
    return {
        "expression": lambda: app.cron("0 0 30 2 *")(plain),
        "tz": lambda: app.cron("@daily", tz="Europe/Berlim")(plain),
        "missed": lambda: app.cron("@daily", missed="often")(plain),
        "option": lambda: app.cron("@daily", key="k")(plain),
        "option of a kind": lambda: app.cron("@daily")(job.options(delay=5)),
        "due_as": lambda: app.cron("@daily", due_as="when")(plain),
        "args": lambda: app.cron("@daily", due_as="user", args={"user": 1})(needs),
        "kind": lambda: app.schedule("x", "jobb", "@daily"),
        "name": lambda: app.cron("@daily", name="bad name")(plain),
        "cap": lambda: app.cron("@daily", cap=0)(plain),
        "jitter": lambda: app.cron("@daily", jitter=-1)(plain),
        "priority": lambda: app.schedule("x", "job", "@daily", priority=12),
    }


def test_mistakes_surface_where_they_are_written_and_define_nothing(shop: Shop) -> None:
    for key, make in mistakes(shop.app).items():
        with pytest.raises(ConfigError) as caught:
            make()
        assert caught.value.key == key.partition(" ")[0]
    with pytest.raises(PayloadError, match="user is missing"):

        @shop.app.cron("@daily")
        def needs(user: int) -> None: ...

    with pytest.raises(PayloadError, match="user does not fit"):
        shop.app.cron("@daily", args={"user": "x"})(needs_user)
    with pytest.raises(ConfigError, match="did you mean job"):
        mistakes(App(shop.app.url))["kind"]()
    assert [kind.name for kind in shop.app.parts.registry] == [
        "job"
    ] and shop.app.parts.registry.schedules == []


def needs_user(user: int) -> None: ...


def test_an_app_speaks_for_the_modules_its_handlers_are_in(shop: Shop) -> None:
    """Partials have no module of their own; a script has the name it would be imported under."""
    shop.app.job(name="plain")(needs_user)
    shop.app.job(name="part")(functools.partial(needs_user, user=1))
    assert shop.app.parts.registry.modules == {__name__}

    def in_main() -> None: ...

    in_main.__module__ = "__main__"
    assert module_of(in_main) != "functools" and "/" not in module_of(in_main)


def test_two_schedules_of_one_kind_need_two_names(shop: Shop) -> None:
    @shop.app.cron("@hourly", name="again")
    @shop.app.cron("@daily")
    def work() -> None: ...

    assert [item.schedule.name for item in shop.app.parts.registry.schedules] == ["work", "again"]
    with pytest.raises(ConfigError, match="name="):
        shop.app.cron("@weekly")(work)
