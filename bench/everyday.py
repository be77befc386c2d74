"""What applications do beside draining no-ops: start, submit one job at a time, compute, wait, work in chunks, run many processes.

Each is a ratio within a round, to a bare loop, to the disk, or to a peer; only the cost of a start is absolute.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench import computing, own, peers
from bench.compare import Figures, drain_of, fresh
from bench.peers.run import Peer
from bench.report import say, show
from bench.server import postgres, version
from windlass import App, Context

ROOT = Path(__file__).parent.parent
APP_MS, IDLE_MB = 150, 45
STARTS_AN_APP = "import time; b = time.perf_counter(); import windlass; windlass.App('sqlite:///x.db'); print(time.perf_counter() - b)"
IDLE_APP = """
import os, windlass
app = windlass.App(os.environ["BENCH_URL"])

@app.job
async def noop(number: int, text: str) -> None: ...
"""
TEXT = "x" * 75


@dataclass(frozen=True)
class Scale:
    """How large the measurements are."""

    rounds: int = 5
    starts: int = 10
    seconds: float = 3.0
    calls: int = 400
    per_second: float = 500.0
    samples: int = 2_500
    chunks: int = 2_000
    drain: int = 60_000
    processes: tuple[int, ...] = (1, 2, 8)


SHORT = Scale(
    rounds=1, starts=2, seconds=0.2, calls=10, per_second=100.0, samples=20, chunks=20, drain=1_000, processes=(1, 2)
)  # fmt: skip


def run(names: Sequence[str], scale: Scale, output: Path | None) -> bool:
    """Measure everything; True when every claim holds."""
    prepared = peers.prepare(names)
    figures = Figures()
    with postgres() as admin, tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        say(f"PostgreSQL {version(admin)}, fsync on; SQLite, synchronous=FULL")
        _start(figures, admin, folder, scale)
        loops = computing.loops_of_a_call()
        for number in range(scale.rounds):
            say(f"round {number + 1} of {scale.rounds}")
            _submits(figures, number, admin, folder, prepared.peers, scale)
            _pickups(figures, number, admin, prepared.peers, scale)
            _computes(figures, number, admin, loops, scale)
            _chunks(figures, number, admin, scale)
            _drains(figures, number, admin, prepared.peers, scale)
            _idle(figures, number, admin, prepared.peers)
    _judge(figures, scale)
    show("Rates and milliseconds, medians of rounds that took turns", figures.tables(), None)
    show("Claims", figures.verdicts, output)
    for name, why in prepared.missing.items():
        print(f"{name}: {why}")
    return figures.hold


# ---------------------------------------------------------------------- start


def _start(figures: Figures, admin: str, folder: str, scale: Scale) -> None:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/pyc", "PYTHONPATH": folder}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or every start would compile Windlass
    app_ms = [_app_ms(environment, folder) for _ in range(scale.starts + 1)][1:]
    figures.judge(
        "import windlass and App(), ms", statistics.median(app_ms), APP_MS, at_most=True, among=app_ms
    )
    (Path(folder) / "idle_app.py").write_text(IDLE_APP)
    with fresh(admin) as url:
        idle_mb = [_idle_mb({**environment, "BENCH_URL": url}, folder) for _ in range(scale.starts + 1)][1:]
    figures.judge(
        "resident MB of an idle worker", statistics.median(idle_mb), IDLE_MB, at_most=True, among=idle_mb
    )


def _app_ms(environment: dict[str, str], folder: str) -> float:
    command = [sys.executable, "-c", STARTS_AN_APP]
    told = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return float(told.stdout) * 1000


def _idle_mb(environment: dict[str, str], folder: str) -> float:
    command = [sys.executable, "-m", "windlass", "worker", "idle_app:app", "--log", "json"]
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stderr is not None
        try:
            while "instance.started" not in (line := worker.stderr.readline()):
                if not line:
                    raise RuntimeError(f"the worker ended with {worker.wait()}")
            time.sleep(1.0)
            pages = int(Path(f"/proc/{worker.pid}/statm").read_text().split()[1])
        finally:
            worker.kill()
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2


# ---------------------------------------------------------------------- submitting


def _submits(
    figures: Figures, number: int, admin: str, folder: str, others: Sequence[Peer], scale: Scale
) -> None:
    with fresh(admin) as url:
        for what, rate in _submit_rates(url, scale.seconds):
            figures.note("windlass", what, number, rate)
    for what, rate in _submit_rates(f"sqlite:///{folder}/submits.db", scale.seconds):
        figures.note("windlass-sqlite", what, number, rate)
    for peer in others:
        place = admin if peer.database == "postgresql" else folder
        figures.note(peer.name, "enqueue", number, peer.measure_enqueue(place, scale.seconds)["rate"])


def _submit_rates(url: str, seconds: float) -> list[tuple[str, float]]:
    app = App(url)

    @app.job(name="submitted")
    async def noop(number: int, text: str) -> None: ...

    app.store.upkeep.maintain()

    def sync() -> float:
        return _rate(lambda: noop.enqueue(number=1, text=TEXT), seconds / 4)

    async def coroutine() -> float:
        done, began = 0, time.perf_counter()
        while (spent := time.perf_counter() - began) < seconds / 4:
            await noop.enqueue_async(number=1, text=TEXT)
            done += 1
        return done / spent

    try:
        turns = [(sync(), asyncio.run(coroutine())) for _ in range(4)]
    finally:
        app.close()
    return [
        ("enqueue", statistics.mean(turn[0] for turn in turns)),
        ("enqueue_async", statistics.mean(turn[1] for turn in turns)),
    ]


def _rate(call: Callable[[], object], seconds: float) -> float:
    done, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        call()
        done += 1
    return done / spent


# ---------------------------------------------------------------------- waiting handlers


def _pickups(figures: Figures, number: int, admin: str, others: Sequence[Peer], scale: Scale) -> None:
    for peer in (own.WINDLASS_HUNDRED, *(one for one in others if one.name == "pgqueuer")):
        result = peer.measure_latency(admin, scale.samples, 1 / scale.per_second, is_random=True, rest=0.02)
        if "wrong" in result:
            say(f"  {peer.name}: {result['wrong']}")
            continue
        for share in (50, 99):
            figures.note(peer.name, f"pickup under load, p{share} ms", number, result[f"p{share}_ms"])


# ---------------------------------------------------------------------- handlers that compute


def _computes(figures: Figures, number: int, admin: str, loops: int, scale: Scale) -> None:
    for processes in (1, 2):
        what = f"calls of 5 ms CPU, {processes} process{'es' if processes > 1 else ''}"
        with fresh(admin) as url:
            for who, is_bare in (("bare loop", True), ("windlass", False)):
                found = computing.measure(url, scale.calls, processes, loops, bare=is_bare)
                figures.note(who, what, number, found["rate"])
                figures.note(who, f"{what}, CPU", number, 1000 / found["cpu_ms"])


# ---------------------------------------------------------------------- chunks


def _chunks(figures: Figures, number: int, admin: str, scale: Scale) -> None:
    with fresh(admin) as url:
        app = App(url)
        spent: dict[str, float] = {}

        @app.job
        def plain(ctx: Context, count: int) -> None:
            began = time.perf_counter()
            for chunk in ctx.chunks(total=count, size=1):
                with chunk:
                    pass
            spent["chunks, plain handler"] = time.perf_counter() - began

        @app.job
        async def coroutine(ctx: Context, count: int) -> None:
            began = time.perf_counter()
            async for chunk in ctx.chunks(total=count, size=1):
                async with chunk:
                    pass
            spent["chunks, async handler"] = time.perf_counter() - began

        engine = app.worker()
        engine.start()
        try:
            for kind in (plain, coroutine):
                kind.enqueue(count=scale.chunks).result(600)
        finally:
            engine.stop()
            app.close()
        for what, seconds in spent.items():
            figures.note("windlass", what, number, scale.chunks / seconds)
        figures.note("disk", "commits", number, _commits(url, scale.chunks))


def _commits(url: str, count: int) -> float:
    """One-row updates a second, each with its own commit."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE bench_commit (n integer)")
        connection.execute("INSERT INTO bench_commit VALUES (0)")
        began = time.perf_counter()
        for _ in range(count):
            connection.execute("UPDATE bench_commit SET n = n + 1", prepare=True)
        return count / (time.perf_counter() - began)


# ---------------------------------------------------------------------- many processes


def _drains(figures: Figures, number: int, admin: str, others: Sequence[Peer], scale: Scale) -> None:
    pgqueuer = [peer for peer in others if peer.name == "pgqueuer"]
    runs: list[tuple[Peer, int]] = [
        (peer, count) for count in scale.processes for peer in (own.WINDLASS_TEN, *pgqueuer)
    ]
    runs.append((own.WINDLASS_ASYNCIO, 1))
    rates: dict[str, list[float]] = {}
    for peer, processes in runs:
        result: dict[str, Any] = peer.measure_drain(admin, scale.drain, processes)
        if "wrong" in result:
            say(f"  {peer.name}: {result['wrong']}")
        else:
            figures.note(peer.name, drain_of(processes), number, result["rate"])
            rates.setdefault(peer.name, []).append(result["rate"])
            if processes == scale.processes[-1]:
                share = result["rate"] / max(rates[peer.name])
                figures.note(peer.name, f"{drain_of(processes)}, of its best rate", number, share)


# ---------------------------------------------------------------------- idle workers


def _idle(figures: Figures, number: int, admin: str, others: Sequence[Peer]) -> None:
    """Each by its script, which has some megabytes itself; so these compare, and the claim is about the command."""
    for peer in (own.WINDLASS_TEN, *(one for one in others if one.database == "postgresql")):
        result = peer.measure_idle(admin)
        if "wrong" in result:
            say(f"  {peer.name}: {result['wrong']}")
        else:
            figures.note(peer.name, "idle, MB", number, result["mb"])


# ---------------------------------------------------------------------- claims


def _judge(figures: Figures, scale: Scale) -> None:
    lite, ours = ("windlass-sqlite", "enqueue"), ("windlass", "enqueue")
    figures.ratio("enqueue one by one, to pgqueuer", ours, ("pgqueuer", "enqueue"), 1.1)
    figures.ratio("enqueue_async to enqueue", ("windlass", "enqueue_async"), ours, 0.95)
    figures.ratio("enqueue one by one on SQLite, to huey with fsync", lite, ("huey-fsync", "enqueue"), 0.9)
    for share in (50, 99):
        what = f"pickup under load, p{share} ms"
        figures.ratio(
            f"pickup at {scale.per_second:g} jobs/s p{share}, of pgqueuer's", ("windlass-100", what), ("pgqueuer", what), 1.2,
            at_most=True,
        )  # fmt: skip
    for processes in ("1 process", "2 processes"):
        what = f"calls of 5 ms CPU, {processes}"
        figures.ratio(f"computing, {processes}, to a bare loop", ("windlass", what), ("bare loop", what), 0.9)
    plain, coroutine = ("windlass", "chunks, plain handler"), ("windlass", "chunks, async handler")
    figures.ratio("chunks, to commits of the disk", plain, ("disk", "commits"), 0.4)
    figures.ratio("chunks of an async handler, to a plain one's", coroutine, plain, 0.9)
    one = drain_of(1)
    figures.ratio(
        "drain with uvloop, to plain asyncio", ("windlass-10", one), ("windlass-10-asyncio", one), 0.95
    )
    most = drain_of(scale.processes[-1])
    figures.ratio(f"{most}, to pgqueuer's", ("windlass-10", most), ("pgqueuer", most), 1.5)
