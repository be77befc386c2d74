"""Does a worker that prunes by its settings run jobs more slowly? Its rate with and without a retention, in turns, on both databases.

With an archive: every job that is gone from history must be in the archive. A span whose queue ran empty, or in which nothing was pruned,
says nothing about the worker: the measurement fails.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.load import ARGS, fill
from bench.report import Row, say, show
from bench.server import postgres, version
from windlass.app.app import App
from windlass.features import Store
from windlass.settings import Settings

POSTGRES = """
INSERT INTO windlass.job_done (id, created_at, finished_at, claimed_at, token, lane, generation, attempt, crashes, max_attempts,
    flags, state, kind, phase, args)
SELECT gen_random_uuid(), at, at, at, 1, 4, 1, 1, 0, 3, 2, 'completed', 'old', 'old', '%s'
FROM (SELECT clock_timestamp() - interval '2 hours' - interval '8 hours' * random() AS at FROM generate_series(1, %d)) AS s
"""
SQLITE = """
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT %d),
    s (at) AS (SELECT CAST(((julianday('now') - 2440587.5) * 86400 - 7200 - 28800 * abs(random() %% 1000) / 1000.0) * 1000000 AS INTEGER) FROM n)
INSERT INTO windlass_job_done (id, created_at, finished_at, claimed_at, token, lane, generation, attempt, crashes, max_attempts,
    flags, state, kind, phase, args)
SELECT lower(printf('%%s-%%s-4%%s-8%%s-%%s', hex(randomblob(4)), hex(randomblob(2)), substr(hex(randomblob(2)), 2), substr(hex(randomblob(2)), 2),
    hex(randomblob(6)))), at, at, at, 1, 4, 1, 1, 0, 3, 2, 'completed', 'old', 'old', '%s'
FROM s
"""
HOUR = 3600.0
FASTEST = 100_000
"""Jobs per second that the queue is filled for: twice what the fastest worker seen ran."""
LEAST = 0.8


@dataclass(frozen=True)
class Span:
    """What a worker did while it was measured."""

    rate: float
    pruned: int
    """Ended jobs that went from history in the span."""
    unpruned: int
    """Ended jobs that were still to prune when it ended."""
    queued: int
    """Jobs that were still queued when it ended."""


def run(*, jobs: int, seconds: float, rounds: int, output: Path | None) -> bool:
    """Measure; True when a worker that prunes keeps four fifths of its rate, no job is lost, and every span could show a difference."""
    rows: list[dict[str, Any]] = []
    for name, database in (("SQLite", _sqlite), ("PostgreSQL", postgres)):
        with database() as url:
            label = f"PostgreSQL {version(url)}" if name == "PostgreSQL" else name
            say(
                f"{label}: {rounds} rounds without and with a retention, {jobs:,} ended jobs to prune in each"
            )
            rows.append({"database": label, **_compare(url, jobs, seconds, rounds)})
    show("A worker's jobs per second while it prunes by its settings, with an archive", rows, output)
    least = min(row["of the rate"] for row in rows)
    lost = sum(row["lost"] for row in rows)
    print(
        f"\na worker that prunes keeps {least:.2f} of its rate (at least {LEAST} wanted); {lost} jobs lost (0 wanted)"
    )
    wrong = faults(rows)
    for fault in wrong:
        print(f"FAILED: {fault}")
    return least >= LEAST and lost == 0 and not wrong


def faults(rows: Sequence[Row]) -> list[str]:
    """Why the rates of these rows say nothing; empty when they do."""
    found = []
    for row in rows:
        if row["least queued at an end"] == 0:
            found.append(
                f"{row['database']}: the queue ran empty in a span, so its rate is that of the queue"
            )
        if row["least pruned in a span"] == 0:
            found.append(f"{row['database']}: nothing was pruned in a span")
        if row["least unpruned at an end"] == 0:
            found.append(f"{row['database']}: pruning was over before a span ended; ask for more --jobs")
    return found


def _compare(url: str, jobs: int, seconds: float, rounds: int) -> dict[str, Any]:
    without: list[Span] = []
    pruning: list[Span] = []
    lost = 0
    with (
        App(url, max_connections=8) if url.startswith("postgres") else App(url) as app,
        tempfile.TemporaryDirectory() as folder,
    ):

        @app.job(processors=200)
        async def noop(user_id: int, text: str) -> None: ...

        store, run_sql = app.store, _runner(app)
        for number in range(rounds):
            template = POSTGRES % (ARGS, jobs) if store.db.dialect == "postgres" else SQLITE % (jobs, ARGS)
            run_sql(template)
            prefix = "windlass." if store.db.dialect == "postgres" else "windlass_"
            run_sql(f"INSERT INTO {prefix}delta (phase, completed) VALUES ('old', {jobs})")
            run_sql(f"DELETE FROM {prefix}turn")  # the pass of the round before was not long ago
            history = f"SELECT id FROM {prefix}job_done WHERE phase = 'old'"
            before = {str(row[0]) for row in run_sql(history)}
            archive = Path(folder) / f"{number}.jsonl"
            without.append(_measure(app, store, seconds, Settings()))
            kept = Settings(retention_completed=HOUR, retention_archive=str(archive))
            pruning.append(_measure(app, store, seconds, kept))
            gone = before - {str(row[0]) for row in run_sql(history)}
            archived = {json.loads(line)["id"] for line in archive.read_text("utf-8").splitlines()}
            lost += len(gone - archived)
    return {
        "without, jobs/s": statistics.median(span.rate for span in without),
        "pruning, jobs/s": statistics.median(span.rate for span in pruning),
        "of the rate": statistics.median(b.rate / a.rate for a, b in zip(without, pruning, strict=True)),
        "least pruned in a span": min(span.pruned for span in pruning),
        "least unpruned at an end": min(span.unpruned for span in pruning),
        "least queued at an end": min(span.queued for span in (*without, *pruning)),
        "lost": lost,
    }


def _measure(app: App, store: Store, seconds: float, settings: Settings) -> Span:
    """A span of a worker with these settings that has been running for a moment."""
    counts = store.phases.counts
    queued = counts()["noop"].queued if "noop" in counts() else 0
    fill(store, max(0, int(1.25 * seconds * FASTEST) - queued))
    engine = app.worker(settings)
    engine.start()
    try:
        time.sleep(seconds / 4)
        old = counts()["old"].completed
        first, began = engine.stats.report().outcome("completed"), time.perf_counter()
        time.sleep(seconds)
        done, spent = engine.stats.report().outcome("completed") - first, time.perf_counter() - began
        after = counts()
        left = after["old"].completed
        return Span(done / spent, old - left, left, after["noop"].queued)
    finally:
        engine.stop()


def _runner(app: App) -> Callable[[str], list[Any]]:
    """Runs statements of the measurement's own on the database."""

    def run_sql(sql: str) -> list[Any]:
        with app.store.db.effect(600) as tx:
            cursor = tx.connection.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []

    return run_sql


@contextmanager
def _sqlite() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/jobs.db"
