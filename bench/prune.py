"""Does pruning a million finished jobs slow claims down? The rate of a claim+complete loop before, during and after."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from bench.load import Drainer, fill, percentile
from bench.report import say, show
from bench.server import postgres, version
from windlass.features import open_store
from windlass.model import Retention

HISTORY = """
INSERT INTO windlass.job_done (id, created_at, finished_at, claimed_at, token, lane, generation, attempt, crashes, max_attempts,
    flags, state, kind, phase, args)
SELECT gen_random_uuid(), at, at, at, 1, 4, 1, 1, 0, 3, 2, 'completed', 'old', 'old', '{"user_id": 7, "text": "xxxxxxxxxxxxxxxxxxxx"}'
FROM (SELECT clock_timestamp() - interval '10 hours' * random() AS at FROM generate_series(1, %s)) AS s
"""


def run(*, jobs: int, seconds: float, batch: int, output: Path | None) -> bool:
    """Measure; True when claims keep two thirds of their rate while history is pruned."""
    with postgres() as url, open_store(url) as store, open_store(url) as pruner:
        say(f"PostgreSQL {version(url)}, fsync on; filling history with {jobs:,} jobs of the last ten hours")
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(HISTORY, (jobs,))
            admin.execute("INSERT INTO windlass.delta (phase, completed) VALUES ('old', %s)", (jobs,))
            admin.execute("VACUUM ANALYZE windlass.job_done")
        queued = int(seconds * 90_000) + 50_000  # more than two and a half measurements can drain
        say(f"filling the queue with {queued:,} jobs")
        fill(store, queued)
        Drainer(store, batch).run(seconds=min(1.0, seconds / 2))  # plans and caches are warm after this
        before = Drainer(store, batch)
        rows = [_row("before", before.run(seconds=seconds), before)]
        say("pruning row by row, claims going on")
        removed: list[int] = []
        spent: list[float] = []

        def prune() -> None:
            began = time.perf_counter()
            # Failed jobs are kept for long, so no whole day may be dropped: the slow way, row by row, is what is measured.
            keep = Retention(
                completed=timedelta(seconds=1), failed=timedelta(days=90), cancelled=timedelta(days=90)
            )
            removed.append(pruner.upkeep.prune(keep))
            spent.append(time.perf_counter() - began)

        worker = threading.Thread(target=prune)
        worker.start()
        during = Drainer(store, batch)
        rate = during.run(seconds=seconds)
        was_pruning = worker.is_alive()
        worker.join()
        rows.append(_row("while pruning", rate, during))
        after = Drainer(store, batch)
        rows.append(_row("after", after.run(seconds=seconds / 2), after))
    slowdown = float(rows[0]["jobs/s"]) / max(1.0, rate)
    rows[1]["slower by"] = slowdown
    show(
        f"Claim + complete, {batch} per step, while {removed[0]:,} jobs are pruned in {spent[0]:.1f} s",
        rows,
        output,
    )
    if not was_pruning:
        say(
            "the prune ended before the measurement did: the figure is flattering; use more --jobs or fewer --seconds"
        )
    print(f"\nclaims are {slowdown:.2f}× slower while pruning (at most 1.50 wanted)")
    return slowdown <= 1.5


def _row(when: str, rate: float, drainer: Drainer) -> dict[str, Any]:
    return {
        "when": when,
        "jobs/s": rate,
        "step p50 ms": percentile(drainer.steps, 0.5) * 1000,
        "step p99 ms": percentile(drainer.steps, 0.99) * 1000,
    }
