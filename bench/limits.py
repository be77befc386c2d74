"""What a limit costs the phases that have none: an unlimited phase drained beside one with and without a limit, in turns.

Four workers serve both. The phase beside is the same work in all cases: handlers that wait. Without a limit as many as it has processors wait
at once, with it three of each key, which is as many altogether. Figures are compared within a round, rounds by their median.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.engine import _tidy
from bench.limited import make
from bench.load import fill
from bench.report import Row, say, show
from bench.server import postgres, version
from windlass.features import Store, open_store

ROOT = Path(__file__).parent.parent
LEAST = 0.9
LIMIT, KEYS, SECONDS = 3, 10, 0.02
PATIENCE = 300.0
CASES = ("no limit", f"limit {LIMIT} a key")


def run(*, jobs: int, rounds: int, workers: int, output: Path | None) -> bool:
    """Measure on both databases; True where the unlimited phase keeps nine tenths of its rate."""
    rows: list[Row] = []
    with postgres() as url:
        say(f"PostgreSQL {version(url)}, fsync on")
        rows += measure("PostgreSQL", url, jobs, rounds, workers)
    with tempfile.TemporaryDirectory() as folder:
        say("SQLite, synchronous=FULL")
        rows += measure("SQLite", f"sqlite:///{folder}/bench.db", jobs, rounds, workers)
    show("An unlimited phase beside a phase of handlers that wait", rows, output)
    ratios = {row["what"]: row["ratio"] for row in rows if "ratio" in row}
    for what, ratio in ratios.items():
        print(f"\n{what}: {ratio:.2f} of the rate without the limit (at least {LEAST} wanted)")
    return all(ratio >= LEAST for ratio in ratios.values())


def measure(database: str, url: str, jobs: int, rounds: int, workers: int) -> list[Row]:
    """The rates of each case, and the median of their ratios."""
    found: dict[str, list[dict[str, float]]] = {case: [] for case in CASES}
    for number in range(rounds):
        # In turns, and each round the other way round: what grows or warms up on the way hits both.
        for case in CASES if number % 2 == 0 else CASES[::-1]:
            say(f"{database}, round {number + 1} of {rounds}: {case}")
            found[case].append(drain(url, jobs, LIMIT if case == CASES[1] else None, workers))
    ratios = [
        limited["rate"] / free["rate"] for free, limited in zip(found[CASES[0]], found[CASES[1]], strict=True)
    ]
    cpu = [
        limited["cpu_us"] / free["cpu_us"]
        for free, limited in zip(found[CASES[0]], found[CASES[1]], strict=True)
    ]
    rows: list[Row] = [
        {
            "what": f"{database}: {case}",
            "jobs/s": statistics.median(item["rate"] for item in items),
            "worker CPU us": statistics.median(item["cpu_us"] for item in items),
            "beside jobs/s": statistics.median(item["visits"] for item in items),
        }
        for case, items in found.items()
    ]
    return [
        rows[0],
        {**rows[1], "ratio": statistics.median(ratios), "CPU ratio": statistics.median(cpu)},
    ]


def drain(url: str, jobs: int, limit: int | None, workers: int) -> dict[str, float]:
    """Queue jobs of both phases, and have workers run those of the unlimited one."""
    _empty(url)
    processors = LIMIT * KEYS if limit else -(-LIMIT * KEYS // workers)
    app, visit = make(url, limit, processors)
    app.store.upkeep.maintain()
    fill(app.store, jobs)
    # As many as can run while the others are drained at 6,000 a second, which is slow.
    calls = [{"key": f"k{n % KEYS}", "seconds": SECONDS} for n in range(jobs // 4)]
    for start in range(0, len(calls), 1000):
        visit.enqueue_many(calls[start : start + 1000])
    app.store.limits.let_in()  # those that wait stand at their gates, as they do wherever a limit is reached
    _tidy(url)
    command = [
        sys.executable,
        "-m",
        "bench.limited",
        url,
        "--limit",
        str(limit or 0),
        "--processors",
        str(processors),
    ]
    children = [
        subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(workers)
    ]
    try:
        facts, visits = _watch(app.store, children, jobs)
    finally:
        for worker in children:
            worker.kill()
            worker.wait()
        app.close()
    seconds = max(item["ended"] for item in facts) - min(item["began"] for item in facts)
    cpu = sum(item["cpu"] for item in facts)
    return {"rate": jobs / seconds, "cpu_us": cpu / jobs * 1e6, "visits": visits / seconds}


def _watch(
    store: Store, children: list[subprocess.Popen[str]], jobs: int
) -> tuple[list[dict[str, float]], int]:
    """Wait until the jobs of the unlimited phase are done; what each worker tells, and how many of the other were done meanwhile."""
    deadline = time.monotonic() + PATIENCE
    while (counts := store.phases.counts())["noop"].completed < jobs:
        if time.monotonic() > deadline or any(worker.poll() is not None for worker in children):
            raise RuntimeError(f"only {counts['noop'].completed} of {jobs} jobs ran")
        time.sleep(0.1)
    told = [worker.communicate()[0].splitlines() for worker in children]
    facts = [json.loads(lines[-1]) for lines in told]
    return [item for item in facts if item["jobs"]], counts["visit"].completed


def _empty(url: str) -> None:
    """Begin each time with the same tables: nothing in them."""
    with open_store(url, auto_migrate=True) as store, store.db.effect(60) as tx:
        prefix = "windlass_" if store.db.dialect == "sqlite" else "windlass."
        for table in (
            "job",
            "job_later",
            "job_done",
            "job_limit",
            "gate",
            "flow",
            "delta",
            "tally",
            "claim",
            "instance",
        ):
            tx.connection.execute(f"DELETE FROM {prefix}{table}")
