"""What an instance does beside running jobs is really done: each duty has its interval, and what it finds is seen."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.engine.shop import Shop
from tests.interleavings import years
from tests.observe.lines import written
from tests.servers.plugin import FreshPostgres
from windlass.engine import duties
from windlass.engine.engine import Engine
from windlass.observe.health import detailed
from windlass.upkeep.loop import NEVER, Duty, UpkeepLoop

pytestmark = pytest.mark.timing


class Ears:
    """A listener that hears nothing while it is deaf."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.is_deaf = False

    @property
    def is_connected(self) -> bool:
        return not self.is_deaf and bool(self._real.is_connected)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.fixture
def ears(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> list[Ears]:
    """The listeners of engines that are started from now on."""
    made: list[Ears] = []
    listen = shop.store.listen

    def listens() -> Any:
        made.append(Ears(listen()))
        return made[-1]

    monkeypatch.setattr(shop.store, "listen", listens)
    return made


def every(engine: Engine) -> dict[str, float]:
    return {duty.name: duty.every for duty in engine._duties.all()}


def test_every_duty_has_its_interval(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    engine = shop.serve(
        recovery=2.5, rollup=3.5, health=4.5, unserved=5.5, cycle=6.5, erase_principal_after=60.0
    )
    assert every(engine) == {
        "agenda": 2.5,
        "assign": 6.5,
        "wake": duties.WAKE_EVERY,
        "maintain": duties.MAINTAIN_EVERY,
        "history": duties.HISTORY_EVERY,
        "orphans": duties.SWEEP_EVERY,
        "rollups": 3.5,
        "summary": duties.SUMMARY_EVERY,
        "health": 4.5,
        "unserved": 5.5,
        "board": shop.app.settings.heartbeat,
        "requests": NEVER,
        "logs": NEVER,
        "principals": 60.0,
    }


def test_duties_that_are_not_needed_are_not_done(shop: Shop) -> None:
    pipe = shop.app.pipeline("pipe")

    @pipe.phase("first")
    def first() -> None: ...

    @pipe.phase("second", max_waiting=5)
    def second() -> None: ...

    found = every(shop.serve(pressure=0.7))
    assert "principals" not in found and found["pressure"] == 0.7


def test_the_health_check_tells_when_a_part_is_not_well_and_when_it_is_again(
    shop: Shop, ears: list[Ears]
) -> None:
    """The check reports the health of the system. A listener that was away is counted when it is back."""

    @shop.app.job
    def work() -> None: ...

    def told() -> list[tuple[str, dict[str, str]]]:
        return [
            (line["fields"]["status"], line["fields"]["parts"])
            for line in lines.objects
            if line["event"] == "instance.health"
        ]

    with written() as lines:
        engine = shop.serve(health=0.05)
        shop.until(lambda: engine.report().listening)
        ears[-1].is_deaf = True
        shop.until(lambda: engine.report().degraded == ["listener: no notifications; polling instead"])
        shop.until(lambda: told()[-1:] == [("degraded", {"listener": "no notifications; polling instead"})])
        assert engine.stats.report().count("reconnects") == 0
        ears[-1].is_deaf = False
        shop.until(lambda: told()[-1] == ("ok", {}))
    shop.until(lambda: engine.stats.report().count("reconnects") == 1)  # said, and counted right after that


def test_the_sweep_takes_over_held_jobs_that_no_claim_covers(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    @shop.app.job
    def other() -> None: ...

    job = work.options(correlation_id="req-1").enqueue()
    engine = shop.serve(phases=("other",), recovery=600.0)
    (lease,) = shop.store.join().claim("work", 1)
    table = "windlass_claim" if shop.store.db.dialect == "sqlite" else "windlass.claim"
    shop.run(f"DELETE FROM {table} WHERE token = {lease.token}")
    (sweep,) = [duty for duty in engine._duties.all() if duty.name == "orphans"]
    with written() as lines:
        sweep.run()
    (line,) = [line for line in lines.objects if line["event"] == "job.recovered"]
    assert (line["job_id"], line["correlation_id"], line["phase"]) == (job.id, "req-1", "work")
    (lost,) = shop.store.jobs.attempts(job.id)
    assert shop.job(job).attempt == 0 and (lost.error or {})["code"] == "instance_died"


def test_the_last_minute_is_written_when_an_instance_stops(shop: Shop) -> None:
    """Between two roll-ups nobody would know of the last jobs."""

    @shop.app.job
    def work() -> None: ...

    start = shop.store.now() - timedelta(minutes=1)
    work.enqueue()
    engine = shop.serve(rollup=3600.0)
    shop.drained(engine)
    engine.stop()
    assert [(row.phase, row.completed) for row in shop.store.rollups.read(since=start)] == [("work", 1)]


def test_many_partitions_are_a_part_of_health(fresh_postgres: FreshPostgres) -> None:
    """Days to come cannot be made months of: so it is said."""
    url = fresh_postgres()
    today = datetime.now(UTC).date()
    years.fill(url, today, today + timedelta(days=205), each=0)
    shop = Shop(url)
    try:

        @shop.app.job
        def work() -> None: ...

        engine = shop.serve()
        shop.until(lambda: any(line.startswith("history: ") for line in engine.report().degraded))
        part = detailed(engine.report())["parts"]["history"]
        assert part["state"] == "degraded" and f"{len(years.names(url))} partitions" in part["seen"]
        assert "windlass db merge-history" in part["advice"]
    finally:
        shop.close()


def test_lines_of_the_log_come_after_a_whole_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """They came in the first second of one start in a hundred."""
    monkeypatch.setattr("windlass.upkeep.loop.random.random", lambda: 0.0)
    began = time.monotonic()
    made = [Duty("log", lambda: None, 60.0, after_interval=True), Duty("other", lambda: None, 60.0)]
    UpkeepLoop(made)
    assert made[0].due_at >= began + 60.0 > made[1].due_at


def test_an_engine_says_its_health_after_a_whole_interval(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    began = time.monotonic()
    engine = shop.serve(health=3600.0)
    due = {duty.name: duty.due_at for duty in engine._duties.loop._duties}
    assert due["health"] >= began + 3600.0 and due["summary"] > began + 1.0
