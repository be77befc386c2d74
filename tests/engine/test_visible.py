"""What a running engine shows of itself: log lines, metrics and health of real jobs, over HTTP."""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.engine.shop import Shop
from tests.observe.lines import written
from windlass.model import State
from windlass.model.retry import fixed
from windlass.observe import logger
from windlass.observe.metrics import Metrics
from windlass.observe.server import serve

pytestmark = pytest.mark.one_database

log = logging.getLogger("shop.handlers")


def test_every_line_of_a_job_has_its_ids(shop: Shop) -> None:
    """Lines of async and plain handlers, and the engine's own about them."""

    @shop.app.job(name="async")
    async def on_the_loop() -> None:
        log.info("from the loop")

    @shop.app.job(name="plain", retry=fixed(2, wait=0.05))
    def in_a_thread() -> None:
        log.info("from a thread")
        raise ConnectionError("refused\nby the other side")

    with written(level="debug") as lines:
        engine = shop.serve()
        first = on_the_loop.options(correlation_id="req-1").enqueue()
        second = in_a_thread.options(correlation_id="req-2").enqueue()
        shop.drained(engine)
    ours = [
        line
        for line in lines.objects
        if line["logger"].startswith(("shop", "windlass.engine")) and "job_id" in line
    ]
    by_job: dict[str, list[dict[str, Any]]] = {}
    for line in ours:
        by_job.setdefault(line["job_id"], []).append(line)
    one, two = by_job[first.id], by_job[second.id]
    assert {line["correlation_id"] for line in one} == {"req-1"} and {
        line["correlation_id"] for line in two
    } == {"req-2"}
    assert [line["message"] for line in one if line["event"] == "log"] == ["from the loop"]
    assert [line["processor"].startswith("async-processor-") for line in one if line["event"] == "log"] == [
        True
    ]
    assert "job.completed" in [line["event"] for line in one]
    ends = [
        (line["event"], line["attempt"]) for line in two if line["event"] in ("job.retried", "job.failed")
    ]
    assert ends == [("job.retried", 1), ("job.failed", 2)]
    retried = next(line for line in two if line["event"] == "job.retried")
    assert retried["error"]["type"] == "ConnectionError" and retried["fields"]["delay_seconds"] >= 0


def test_a_log_handler_that_raises_costs_no_job(
    shop: Shop, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are written by whoever has jobs in hand: the step's thread took this for a broken step."""

    class Broken(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            if "event" in vars(record):
                raise OSError("the log's disk is full")
            return True

    @shop.app.job(name="fails", retry=fixed(2, wait=0.05))
    def fails() -> None:
        raise ValueError("no")

    @shop.app.job(name="welcome")
    async def welcome() -> None:
        pass

    jobs = [*welcome.enqueue_many([{}] * 50), *fails.enqueue_many([{}] * 5)]
    monkeypatch.setattr(logger, "_unwritable", logger.Quiet())
    told, broken = logging.getLogger("windlass.engine"), Broken()
    told.addHandler(broken)
    level = told.level
    told.setLevel(logging.DEBUG)
    try:
        engine = shop.serve()
        shop.drained(engine)
        report = engine.stats.report()
    finally:
        told.setLevel(level)
        told.removeHandler(broken)
    ended = [shop.store.jobs.get(job.id) for job in jobs]
    assert [job.state for job in ended] == [State.COMPLETED] * 50 + [State.FAILED] * 5
    assert [job.attempt for job in ended] == [1] * 50 + [2] * 5
    assert report.count("step_errors") == 0 and "the log's disk is full" in capfd.readouterr().err


def well(base: str) -> Any:
    """The whole picture once it is good: on a busy machine a part is late now and then."""
    with suppress(urllib.error.HTTPError):
        told = json.load(urllib.request.urlopen(f"{base}/healthz"))
        return told if told["status"] == "ok" else None
    return None


def test_metrics_and_health_of_real_jobs(shop: Shop) -> None:
    @shop.app.job(name="welcome", retry=fixed(1))
    def welcome(n: int) -> int:
        if n % 10 == 0:
            raise ValueError("no")
        return n

    start = shop.store.now()
    engine = shop.serve(rollup=0.1)
    for n in range(50):
        welcome.enqueue(n=n)
    shop.drained(engine)
    assert engine.stats.report().count("reconnects") == 0, "the first connection is none that was made anew"
    metrics = Metrics(engine.stats.report, engine.report, shop.store.phases.counts)
    with serve("127.0.0.1", 0, engine.report, metrics.render, counts=shop.store.phases.counts) as server:
        base = f"http://127.0.0.1:{server.port}"
        text = urllib.request.urlopen(f"{base}/metrics").read().decode()
        told = shop.until(partial(well, base))
        ready = urllib.request.urlopen(f"{base}/readyz").status
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["windlass_jobs_ended_total", "completed", "welcome"] == 45
    assert samples["windlass_jobs_ended_total", "failed", "welcome"] == 5
    assert samples["windlass_run_seconds_count", "welcome"] == 50
    assert samples["windlass_processors", "idle", "welcome"] == 10
    assert ready == 200 and told["status"] == "ok", told
    assert told["instance"] == engine.id

    def rolled_up() -> bool:
        rows = shop.store.rollups.read(since=start - timedelta(minutes=1))
        return (sum(row.completed for row in rows), sum(row.failed for row in rows)) == (45, 5)

    shop.until(rolled_up)
