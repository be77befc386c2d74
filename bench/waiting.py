"""Waiting for results: how long after the job's commit a caller has the result, and what a thousand waiting callers cost a drain.

A worker process runs the jobs; this process submits them and waits, one thread for each result. For the drain, the callers wait for jobs that are
not due yet, so that every end of the drain is announced and none is theirs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from bench.limited import make
from bench.report import Row, say, show
from bench.server import postgres
from windlass import App, JobHandle

RATE = 200
"""Jobs a second that become due while latencies are measured."""
NAME = "windlass-bench-callers"
CONNECTIONS = {"sqlite": 2, "postgresql": 1}
"""On SQLite one that listens and one that reads."""
PATIENCE = 60.0
"""Seconds until all callers must wait."""


def run(*, callers: int, jobs: int, rounds: int, output: Path | None) -> bool:
    """Measure both databases; returns whether waiting costs as many connections as promised, and a drain with waiting callers keeps nine tenths of its rate."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        rows.append(_measure(f"sqlite:///{folder}/jobs.db", callers, jobs, rounds))
    with postgres() as url:
        rows.append(_measure(url, callers, jobs, rounds))
    show(
        f"Waiting: {callers:,} callers in one process, drains of {jobs:,} jobs, {rounds} rounds", rows, output
    )
    return all(
        row["connections for waiting"] == CONNECTIONS[row["database"]]
        and row["drain with callers / without"] >= 0.9
        for row in rows
    )


def _measure(url: str, callers: int, jobs: int, rounds: int) -> Row:
    say(f"{url.partition(':')[0]}: latencies")
    app, _ = make(_named(url), None, 1)
    noop = app.kind("noop")
    with worker(url):
        first = noop.enqueue()
        while not first.state().is_final:
            time.sleep(0.01)
        before = _connections(url)
        late, during = _latencies(app, url, callers)
        say(f"{url.partition(':')[0]}: {rounds} drains without and with callers")
        ratios = [_ratio(app, callers, jobs, number) for number in range(rounds)]
    app.close()
    late.sort()
    return {
        "database": url.partition(":")[0],
        "connections for waiting": during - before,
        "commit to caller p50 ms": 1000 * late[len(late) // 2],
        "p99 ms": 1000 * late[int(len(late) * 0.99)],
        "drain with callers / without": statistics.median(ratios),
        "from": min(ratios),
        "to": max(ratios),
    }


def _ratio(app: App, callers: int, jobs: int, number: int) -> float:
    """The rate of a drain beside callers, of the rate of one without. The order changes from round to round."""
    rates: dict[bool, float] = {}
    for has_callers in (True, False) if number % 2 else (False, True):
        if has_callers:
            with _waiting(app, callers):
                rates[True] = drain(app, jobs)
        else:
            rates[False] = drain(app, jobs)
    say(f"  round {number + 1}: {rates[True]:,.0f} beside {rates[False]:,.0f} jobs/s")
    return rates[True] / rates[False]


@contextmanager
def worker(url: str) -> Iterator[None]:
    """A worker process that runs the jobs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.limited", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stdout.readline().strip() == "serves"
        yield
    finally:
        process.communicate()


def _named(url: str) -> str:
    """The URL with a name for the connections of this process."""
    return url if url.startswith("sqlite") else f"{url}{'&' if '?' in url else '?'}application_name={NAME}"


def _connections(url: str) -> int:
    """Connections of this process to the database: to a SQLite file, its open file descriptors."""
    if url.startswith("sqlite"):
        return _descriptors(Path(url.removeprefix("sqlite:///")))
    with psycopg.connect(url) as session:
        found = session.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", (NAME,)
        ).fetchone()
    return int(found[0]) if found is not None else 0


def _descriptors(path: Path) -> int:
    file = path.stat()
    found = 0
    for descriptor in Path("/dev/fd").iterdir():
        with suppress(OSError):  # the descriptor of the listing itself, which is closed by now
            opened = os.fstat(int(descriptor.name))
            found += (opened.st_dev, opened.st_ino) == (file.st_dev, file.st_ino)
    return found


def _latencies(app: App, url: str, callers: int) -> tuple[list[float], int]:
    """Seconds from the commit of each job to its caller, and the connections while callers wait. All callers wait before the first job is
    due."""
    noop = app.kind("noop")
    returned: dict[str, float] = {}
    due = datetime.now(UTC).timestamp() + 5 + callers / 100
    times = [datetime.fromtimestamp(due + number / RATE, UTC) for number in range(callers)]
    made = noop.enqueue_many([noop.options(run_at=at).request() for at in times])

    def wait(handle: JobHandle[Any]) -> None:
        handle.result(120)
        returned[handle.id] = time.time()

    threads = [threading.Thread(target=wait, args=(handle,)) for handle in made]
    for thread in threads:
        thread.start()
    _until_all_wait(app, callers)
    if time.time() > due:
        raise RuntimeError("not all callers waited when the first job was due; the machine is too busy")
    during = _connections(url)
    for thread in threads:
        thread.join()
    late = []
    for handle in made:
        finished = handle.job().finished_at
        assert finished is not None
        late.append(returned[handle.id] - finished.timestamp())
    return late, during


def _until_all_wait(app: App, callers: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while app.parts.waiter.waited_for() < callers:
        if time.monotonic() > deadline:
            raise RuntimeError(f"not all callers waited within {PATIENCE:g} s; the machine is too busy")
        time.sleep(0.01)


@contextmanager
def _waiting(app: App, callers: int) -> Iterator[None]:
    """As many callers that wait, for jobs that do not end."""
    never = app.kind("noop").options(delay=3600).enqueue_many([{} for _ in range(callers)])
    threads = [threading.Thread(target=handle.wait) for handle in never]
    for thread in threads:
        thread.start()
    try:
        _until_all_wait(app, callers)
        yield
    finally:
        for handle in never:
            handle.cancel("the measurement is over")
        for thread in threads:
            thread.join()


def drain(app: App, jobs: int) -> float:
    """Jobs a second that the worker ends."""
    began = time.monotonic()
    made = app.kind("noop").enqueue_many([{"number": number} for number in range(jobs)])
    counts = app.store.phases.counts
    while counts()["noop"].queued + counts()["noop"].processing:
        time.sleep(0.01)
    assert made[-1].state().is_final
    return jobs / (time.monotonic() - began)
