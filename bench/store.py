"""What the store alone costs: enqueue, claim and finish, by batch size, on both databases, with and without a held snapshot."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.load import ARGS, Drainer, fill, percentile
from bench.report import Row, say, show
from bench.server import postgres, version
from windlass.features import Store, open_store
from windlass.model import NewJob

BATCHES = (1, 10, 100, 500)
MOST_WAL = 1_000  # bytes for a plain job after its enqueue, at 10 or more a step


def run(*, seconds: float, snapshot: float, output: Path | None) -> bool:
    """Measure; True when a plain job writes no more WAL than it may."""
    rows: list[Row] = []
    with postgres() as url:
        say(f"PostgreSQL {version(url)}, fsync on")
        with open_store(url) as store:
            rows += _enqueues("PostgreSQL", store, seconds)
            for batch in BATCHES:
                rows.append(
                    _steps("PostgreSQL", store, batch, seconds, Meter(url, patience=min(1.1, seconds)))
                )
            rows += _beside_a_snapshot(url, store, snapshot)
    with tempfile.TemporaryDirectory() as folder:
        say("SQLite, synchronous=FULL")
        with open_store(f"sqlite:///{folder}/bench.db") as store:
            rows += _enqueues("SQLite", store, seconds)
            rows += [_steps("SQLite", store, batch, seconds, None) for batch in BATCHES]
    show("The store by itself, one connection, jobs of 100 B", rows, output)
    dear = [row for row in rows if "100 per step" in row["what"] and row.get("WAL B/job", 0) > MOST_WAL]
    for row in dear:
        print(f"\n{row['what']} writes {row['WAL B/job']:.0f} B of WAL a job (at most {MOST_WAL} wanted)")
    return not dear


def _enqueues(database: str, store: Store, seconds: float) -> list[Row]:
    rows: list[Row] = []
    for batch in (1, 100, 1000):
        took: list[float] = []
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            at = time.perf_counter()
            store.enqueue([NewJob(kind="bulk", args=ARGS) for _ in range(batch)])
            took.append(time.perf_counter() - at)
        spent = time.perf_counter() - began
        rows.append(_row(database, f"enqueue {batch} per call", batch * len(took) / spent, took))
    return rows


def _steps(database: str, store: Store, batch: int, seconds: float, meter: Meter | None) -> Row:
    kind = f"drain-{batch}"
    # As many as the fastest machine seen could drain in the time: 2,500 steps of one, 70,000 jobs in batches.
    fill(store, int(min(3_000 * batch, 70_000) * seconds) + batch, kind)
    drainer = Drainer(store, batch, kind)
    Drainer(store, batch, kind).run(seconds=seconds / 10)
    if meter:
        meter.start()
    rate = drainer.run(seconds=seconds)
    facts = meter.stop(drainer.done) if meter else {}
    return _row(database, f"finish + claim, {batch} per step", rate, drainer.steps) | facts


def _beside_a_snapshot(url: str, store: Store, seconds: float) -> list[Row]:
    """A drain before and while a report holds its snapshot: dead rows may not slow it down more and more."""
    fill(store, int(50_000 * seconds * 1.25), "held")

    def drain(what: str) -> Row:
        drainer = Drainer(store, 100, "held")
        rate = drainer.run(seconds=seconds / 4)
        return _row("PostgreSQL", f"100 per step, {what}", rate, drainer.steps)

    rows = [drain("no snapshot held")]
    with _held_snapshot(url):
        rows += [drain(f"snapshot held, {part} quarter") for part in ("first", "second", "third", "last")]
    return rows


@contextmanager
def _held_snapshot(url: str) -> Iterator[None]:
    with psycopg.connect(url) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT count(*) FROM windlass.job_done")
        yield
        reader.rollback()


def _row(database: str, what: str, rate: float, took: list[float]) -> dict[str, Any]:
    return {
        "what": f"{database}: {what}",
        "jobs/s": rate,
        "p50 ms": percentile(took, 0.5) * 1000,
        "p99 ms": percentile(took, 0.99) * 1000,
    }


@dataclass
class Meter:
    """What a stretch of work cost the server: WAL, CPU of its sessions (on the same machine), share of HOT updates.

    ``patience`` is waited before looking: sessions report their updates at most once a second.
    """

    url: str
    patience: float

    def start(self) -> None:
        self._wal, self._updates, self._cpu = self._look()

    def stop(self, jobs: int) -> dict[str, Any]:
        if not jobs:
            return {}  # a short round on a busy machine
        wal, (updated, hot), cpu = self._look()
        updated, hot = updated - self._updates[0], hot - self._updates[1]
        spent = sum(cpu[pid] - self._cpu.get(pid, 0.0) for pid in cpu)
        facts: dict[str, Any] = {"WAL B/job": (wal - self._wal) / jobs}
        if cpu:
            facts["server CPU us/job"] = spent / jobs * 1e6
        if updated:
            facts["HOT %"] = 100 * hot / updated
        return facts

    def _look(self) -> tuple[int, tuple[int, int], dict[int, float]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            time.sleep(self.patience)
            found = connection.execute(
                "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables "
                "WHERE schemaname = 'windlass' AND relname = 'job'"
            ).fetchone()
            sessions = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            ).fetchall()
        assert found is not None
        return (
            int(found[0]),
            (found[1], found[2]),
            {pid: cpu for (pid,) in sessions if (cpu := _cpu(pid)) is not None},
        )


def _cpu(pid: int) -> float | None:
    """Seconds of CPU a process has used; None where it is not ours to see."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
