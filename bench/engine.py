"""The engine by itself: enqueue, pickup, idleness, backlog, load, memory, a held snapshot. On both databases.

Each measurement is a function from a URL to rows; ``bench/compare.py`` has those that need peers beside them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from bench.crew import rate, workers
from bench.load import fill, percentile
from bench.report import Row, say
from bench.store import Meter
from windlass import App
from windlass.features import open_store

TEXT = "x" * 75


def enqueue(url: str, seconds: float) -> list[Row]:
    """One after the other, 32 coroutines at once, and many per call."""
    app = App(url)

    @app.job(name="enqueued")
    async def noop(number: int, text: str) -> None: ...

    app.store.upkeep.maintain()
    rows: list[Row] = [
        _rate("enqueue one at a time", _one_by_one(lambda: noop.enqueue(number=1, text=TEXT), seconds))
    ]

    async def together() -> float:
        deadline = time.perf_counter() + seconds
        done = 0

        async def caller() -> None:
            nonlocal done
            while time.perf_counter() < deadline:
                await noop.enqueue_async(number=1, text=TEXT)
                done += 1

        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(32)))
        return done / (time.perf_counter() - began)

    rows.append(_rate("enqueue_async, 32 callers", asyncio.run(together())))
    calls = [{"number": n, "text": TEXT} for n in range(1000)]
    rows.append(
        _rate("enqueue_many, 1000 a call", 1000 * _one_by_one(lambda: noop.enqueue_many(calls), seconds))
    )
    app.close()
    return rows


def pickup(url: str, samples: int, interval: float = 0.05) -> Row:
    """From the return of an enqueue in another process to the start of the handler, with nothing else to do."""
    with open_store(url) as store:
        store.upkeep.maintain()
    with workers(url, processors=10) as (worker,):
        time.sleep(1.0)
        returned = _send(url, samples + 5, interval)
        time.sleep(0.3)
        starts = worker.answer()["starts"][5:]
    return _waits("pickup, idle worker", starts, returned)


def under_load(url: str, per_second: int, seconds: float) -> Row:
    """The same while jobs come at a steady rate."""
    with workers(url, processors=500) as (worker,):
        time.sleep(0.5)
        returned = _send(url, int(per_second * seconds), 1 / per_second)
        time.sleep(0.5)
        starts = worker.answer()["starts"]
    return _waits(f"pickup at {per_second:,} jobs/s", starts, returned)


def idle(url: str, seconds: float) -> Row:
    """Statements per second of a worker with nothing to do, counted in the server's log: its counters of transactions have some of
    them twice, and its own housekeeping as well."""
    with workers(url, processors=10) as _:
        time.sleep(min(12.0, seconds))  # past its first heartbeat, which opens a connection
        return {"what": "idle worker", "statements/s": _statements(url, seconds)}


def _statements(url: str, seconds: float) -> float:
    with psycopg.connect(url, autocommit=True, application_name="the measurement") as connection:

        def log() -> str:
            row = connection.execute(
                "SELECT pg_read_file(current_setting('data_directory') || '/../log')"
            ).fetchone()
            assert row is not None
            return str(row[0])

        for change in ("SET log_statement = 'all'", "SET log_line_prefix = '%a|'"):
            connection.execute(f"ALTER SYSTEM {change}")
        connection.execute("SELECT pg_reload_conf()")
        try:
            time.sleep(0.5)
            before, began = len(log()), time.monotonic()
            time.sleep(seconds)
            lines, spent = log()[before:].splitlines(), time.monotonic() - began
        finally:
            for name in ("log_statement", "log_line_prefix"):
                connection.execute(f"ALTER SYSTEM RESET {name}")
            connection.execute("SELECT pg_reload_conf()")
    told = [line for line in lines if "LOG:  execute " in line or "LOG:  statement: " in line]
    return sum(not line.startswith("the measurement|") for line in told) / spent


def backlog(url: str, queued: int, jobs: int) -> Row:
    """The rate at which the first of many queued jobs are run."""
    with open_store(url) as store:
        store.upkeep.maintain()
        say(f"queueing {queued:,} jobs")
        fill(store, queued)
    _tidy(url)
    facts = rate(url, jobs)
    return {"what": f"drain, {queued:,} queued", "jobs/s": facts["rate"], "worker CPU us": facts["cpu_us"]}


def costs(url: str, jobs: int) -> Row:
    """A drain with what it cost the server."""
    with open_store(url) as store:
        store.upkeep.maintain()
        fill(store, jobs)
    _tidy(url)
    meter = Meter(url, patience=1.1)
    meter.start()
    before = _dead(url)
    facts = rate(url, jobs)
    cost = meter.stop(facts["handled"])
    dead = (_dead(url) - before) / facts["handled"]
    return {"what": "drain, 1 process", "jobs/s": facts["rate"], **cost, "dead rows/job": dead}


def snapshot(url: str, seconds: float) -> list[Row]:
    """The rate before and while somebody holds a snapshot open."""
    with open_store(url) as store:
        store.upkeep.maintain()
        before = min(100_000, int(30_000 * seconds))
        queued = before + int(50_000 * seconds)
        say(f"queueing {queued:,} jobs")
        fill(store, queued)
    _tidy(url)
    free = rate(url, before)
    with _held_snapshot(url), workers(url) as (worker,):
        time.sleep(seconds)
        held = worker.answer()
    share = held["rate"] / free["rate"]
    return [
        {"what": "drain, no snapshot held", "jobs/s": free["rate"]},
        {"what": f"drain, snapshot held for {seconds:g} s", "jobs/s": held["rate"], "ratio": share},
    ]


def memory(url: str, first: int, last: int) -> Row:
    """Resident memory of one worker after few and after many jobs."""
    with open_store(url) as store:
        store.upkeep.maintain()
        say(f"queueing {last:,} jobs")
        fill(store, last)
    _tidy(url)
    facts = rate(url, last, marks=(first, last))
    early, late = facts["rss"][str(first)], facts["rss"][str(last)]
    return {
        "what": f"memory after {first:,} and {last:,} jobs",
        "jobs/s": facts["rate"],
        "MB": early,
        "MB later": late,
        "MB more": late - early,
    }


def _one_by_one(call: Callable[[], object], seconds: float) -> float:
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        call()
        done += 1
    return done / (time.perf_counter() - began)


def _send(url: str, count: int, interval: float) -> dict[float, float]:
    """Enqueue jobs at a steady pace, from a few threads where one cannot keep up; answers when each call returned, by when it began."""
    app = App(url)

    @app.job(name="noop")
    async def noop(sent_at: float, text: str) -> None: ...

    lock, sent = threading.Lock(), 0
    returned: dict[float, float] = {}
    began = time.perf_counter()

    def send() -> None:
        nonlocal sent
        while True:
            with lock:
                number, sent = sent, sent + 1
            if number >= count:
                return
            time.sleep(max(0.0, began + number * interval - time.perf_counter()))
            sent_at = time.time()
            noop.enqueue(sent_at=sent_at, text=TEXT)
            returned[sent_at] = time.time()

    threads = [threading.Thread(target=send) for _ in range(1 if interval >= 0.01 else 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    app.close()
    return returned


def _tidy(url: str) -> None:
    if not url.startswith("sqlite"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")


def _dead(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT sum(n_dead_tup) FROM pg_stat_user_tables").fetchone()
    return int(row[0] or 0) if row else 0


@contextmanager
def _held_snapshot(url: str) -> Iterator[None]:
    with psycopg.connect(url) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT count(*) FROM windlass.wake")
        yield
        reader.rollback()


def _rate(what: str, rate: float) -> Row:
    return {"what": what, "jobs/s": rate}


def _waits(what: str, starts: list[tuple[float, float]], returned: dict[float, float]) -> Row:
    """From commit to start; a handler may begin before its enqueuer has heard of the commit."""
    waits = [max(0.0, started - returned[sent_at]) * 1000 for sent_at, started in starts]
    row: Row = {"what": what, "samples": len(waits)}
    for share in (50, 95, 99):
        row = {**row, f"p{share} ms": percentile(waits, share / 100)}
    return row
