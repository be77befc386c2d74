"""Every read of the control service with a million jobs: at most 100 ms at the 95th percentile, also when nothing is found."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.control_fill import Crowd, fill_postgres, fill_sqlite
from bench.control_reads import reads, settle
from bench.load import percentile
from bench.report import say, show
from bench.server import postgres, version
from windlass import App
from windlass.features import open_store

MOST_MS = 100.0


@contextmanager
def sqlite(crowd: Crowd) -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        path = Path(folder) / "jobs.db"
        open_store(f"sqlite:///{path}").close()
        fill_sqlite(str(path), crowd)
        yield "SQLite", f"sqlite:///{path}"


@contextmanager
def server(crowd: Crowd) -> Iterator[tuple[str, str]]:
    with postgres() as url:
        fill_postgres(url, crowd)
        yield f"PostgreSQL {version(url)}", url


def run(*, jobs: int, rounds: int, only: str, output: Path | None) -> bool:
    """Measure; True when every read is under ``MOST_MS`` at the 95th percentile."""
    crowd, rows, slow = Crowd(jobs), [], []
    for open_database in (sqlite, server):
        say(f"filling {jobs:,} jobs")
        with open_database(crowd) as (name, url), App(url) as app:
            settle(app)
            for call, asked, read in reads(app, crowd):
                what = f"{call} {asked}".rstrip()
                if only not in what:
                    continue
                read()  # prepares statements, reads pages
                times: list[float] = []
                last: Any = None
                for _ in range(rounds):
                    began = time.perf_counter()
                    last = read()
                    times.append((time.perf_counter() - began) * 1000)
                p95 = percentile(times, 0.95)
                searched = getattr(last, "searched", "")
                found = (
                    len(last.jobs) if hasattr(last, "jobs") else last.count if hasattr(last, "exact") else ""
                )
                rows.append(
                    {
                        "database": name,
                        "read": what,
                        "p50 ms": percentile(times, 0.5),
                        "p95 ms": p95,
                        "found": found,
                        "searched": searched,
                    }
                )
                if p95 > MOST_MS:
                    slow.append(f"{what} on {name}: {p95:.0f} ms")
    show(f"Reads of the control service, {jobs:,} jobs, {rounds} times each", rows, output)
    print(
        f"\n{len(slow)} of {len(rows)} reads are over {MOST_MS:g} ms at p95"
        + "".join(f"\n  {line}" for line in slow)
    )
    return not slow
