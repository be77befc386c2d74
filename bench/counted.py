"""What a plain job costs, counted and not timed: statements, WAL, rows visited, Python calls. The same on a busy machine.

``bench counted CHECKOUT`` compares the counts with those of another version (counted_beside.py).
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg

from bench.load import fill
from bench.report import Row, say, show
from bench.server import postgres
from windlass import App
from windlass.features import Store
from windlass.model import Completed, Lease, Want

BATCH = 100
WAIT = 1.2  # sessions report their counters at most once a second


def run(*, jobs: int, output: Path | None) -> None:
    """Count on both databases."""
    rows: list[Row] = []
    with postgres() as url:
        say("PostgreSQL")
        rows += _all(url, jobs)
    with tempfile.TemporaryDirectory() as folder:
        say("SQLite")
        rows += _all(f"sqlite:///{folder}/jobs.db", jobs)
    show("A plain job, counted", rows, output)


def _all(url: str, jobs: int) -> list[Row]:
    name = url.partition(":")[0]
    app = App(url)

    @app.job(name="noop")
    async def noop(user_id: int, text: str) -> None: ...

    store = app.store
    store.upkeep.maintain()
    calls: list[dict[str, Any]] = [{"user_id": n, "text": "x" * 75} for n in range(BATCH)]
    noop.enqueue(**calls[0])  # the first call prepares
    found: list[Row] = []
    for what, times, each, work in (
        ("enqueue", jobs // 10, 1, lambda: noop.enqueue(**calls[0])),
        ("enqueue_many, 100 a call", jobs // BATCH, BATCH, lambda: noop.enqueue_many(calls)),
    ):
        found.append({"what": f"{name}: {what}", **_cost(store, url, work, times, each)})
    step = _stepper(store)
    _drain(store, step)
    fill(store, jobs)
    found.append({"what": f"{name}: step, 100 a step", **_cost(store, url, step, jobs // BATCH, BATCH)})
    _drain(store, step)
    done = store.phases.counts()["noop"].completed
    fill(store, jobs)
    found.append({"what": f"{name}: engine, all of it", **_engine(app, jobs, done)})
    app.close()
    return found


def _stepper(store: Store) -> Callable[[], None]:
    """Finish what is held and claim the next, as an engine's step thread does."""
    holder = store.join()
    held: list[Lease] = []

    def step() -> None:
        outcomes = [Completed(lease) for lease in held]
        held[:] = holder.step(outcomes, Want("noop", BATCH)).claimed

    return step


def _drain(store: Store, step: Callable[[], None]) -> None:
    while store.phases.counts()["noop"].queued or store.phases.counts()["noop"].processing:
        step()


def _cost(store: Store, url: str, work: Callable[[], Any], times: int, each: int) -> dict[str, float]:
    before = _server(store, url)
    statements = _count_statements(store)
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        for _ in range(times):
            work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    jobs, told = times * each, statements()
    after = _server(store, url)
    return {
        **({} if url.startswith("sqlite:") else {"statements/job": told / jobs}),
        **{key: (after[key] - before[key]) / jobs for key in after},
        "Python calls/job": calls / jobs,
    }


def _count_statements(store: Store) -> Callable[[], int]:
    """Count statements that are sent to the database, and streams; the returned function stops and tells."""
    sent = [0]
    writer = getattr(store.db, "_writer", None)
    if writer is not None:

        def traced(_statement: str) -> None:
            sent[0] += 1

        writer.set_trace_callback(traced)

        def stop() -> int:
            writer.set_trace_callback(None)
            return sent[0]

        return stop
    originals = {name: getattr(psycopg.Cursor, name) for name in ("execute", "copy")}

    def counting(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            sent[0] += 1
            return originals[name](*args, **kwargs)

        return call

    for name in originals:
        setattr(psycopg.Cursor, name, counting(name))

    def restore() -> int:
        for name, original in originals.items():
            setattr(psycopg.Cursor, name, original)
        return sent[0]

    return restore


def _server(store: Store, url: str) -> dict[str, float]:
    if url.startswith("sqlite:"):
        return {}
    time.sleep(WAIT)
    store.phases.counts()  # a session reports with its next statement
    time.sleep(0.1)
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn, "
            "(SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables), "
            "(SELECT sum(idx_tup_read) FROM pg_stat_user_indexes), "
            "(SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables)"
        ).fetchone()
    assert row is not None
    return dict(
        zip(
            ("WAL B/job", "rows visited/job", "index entries/job", "rows written/job"),
            map(float, row),
            strict=True,
        )
    )


def _engine(app: App, jobs: int, done: int) -> dict[str, float]:
    """All Python calls of an engine that drains the queue, on all its threads."""
    calls = [0]

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            calls[0] += 1  # races lose a few; a difference of a percent means nothing

    threading.setprofile(count)
    try:
        engine = app.worker()
        engine.start()
        while app.store.phases.counts()["noop"].completed < done + jobs:
            time.sleep(0.05)
        engine.stop()
    finally:
        threading.setprofile(None)
    return {"Python calls/job": calls[0] / jobs}
