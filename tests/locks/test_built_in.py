"""The locks as the builder wires them: what happens to Redis shows in the health and metrics of whoever uses them."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

import windlass
from tests.locks.server import OwnValkey
from tests.waiting import PATIENCE
from windlass.config import load
from windlass.engine.one_job import Status
from windlass.errors import ConfigError
from windlass.observe import health

pytestmark = pytest.mark.timing


def test_redis_killed_in_mid_run_is_seen_and_costs_nothing(
    own_valkey: OwnValkey, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two processes' worth of parts run the same forty jobs by request while a worker serves them; Redis dies on the way."""
    app = windlass.App("sqlite:///unused.db")
    ran: list[int] = []

    @app.job
    def pay(n: int) -> None:
        ran.append(n)

    config = {"database.url": f"sqlite:///{tmp_path / 'jobs.db'}", "redis.url": own_valkey.url}
    with windlass.build(config, app=app) as one, windlass.build(config, app=app) as two:
        jobs = [one.enqueue("pay", n=n).id for n in range(40)]
        assert one.process_request(jobs[0]).status is Status.COMPLETED
        assert one.health()["status"] == "ok" and b'windlass_degraded{part="redis lock"} 0.0' in one.metrics()
        own_valkey.kill()
        with caplog.at_level(logging.WARNING, "windlass"):
            threads = [
                threading.Thread(target=lambda bg=bg: [bg.process_request(job) for job in jobs])
                for bg in (one, two)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
        assert sorted(ran) == list(range(40)), "the database lets each run once"
        assert any(record.__dict__.get("event") == "lock.degraded" for record in caplog.records)
        part = one.health()["parts"]["redis lock"]
        assert one.health()["status"] == part["state"] == "degraded" and "Redis" in part["advice"]
        assert b'windlass_degraded{part="redis lock"} 1.0' in one.metrics()
        worker = one.worker()
        assert health.states(worker.report())["redis lock"] == "degraded"
        assert worker.stats.report().phases["pay"].outcomes["completed"] >= 1, "one set of counters"


def test_how_locks_are_kept_is_checked_when_settings_are_read() -> None:
    assert load({"background.lock_prefix": "shop:"}).locks.key("7") == "shop:7"
    for given, told in (
        ({"background.lock_prefix": "a b"}, r"background\.lock_prefix.*without spaces.*code"),
        (
            {"background.redis_lock_required": True, "background.redis_lock_enabled": False},
            r"background\.redis_lock_required.*code",
        ),
        ({"redis.url": "http://:secret@cache"}, r"redis\.url"),
    ):
        with pytest.raises(ConfigError, match=told) as error:
            load(given)
        assert "secret" not in str(error.value)
