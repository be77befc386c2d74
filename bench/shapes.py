"""Work that is not one kind of one phase: a pipeline of three phases, and fifty kinds, each beside a plain drain of the same round.

Handlers do nothing, processors and settings are the defaults. A job of a pipeline counts once for each of its phases.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import psycopg

from bench.crew import rate
from bench.load import ARGS
from bench.peers.databases import fresh_database
from bench.report import Row, say, show
from bench.server import postgres
from windlass.features import open_store
from windlass.model import NewJob
from windlass.store.migrate import migrate

PHASES, KINDS, PROCESSORS = 3, 50, 10
PLAIN, PIPELINE, MANY = "drain, default processors", "three-phase pipeline", f"{KINDS} kinds"
STALE = f"{PIPELINE}, no statistics"
SHAPES = (PLAIN, PIPELINE, STALE, MANY)


def kinds_of(shape: str) -> list[tuple[str, list[str]]]:
    """The kinds of a shape, each with the labels of its phases; a kind of one phase has none."""
    if shape in (PIPELINE, STALE):
        return [("flow", [f"phase-{number}" for number in range(PHASES)])]
    return [(f"noop-{number}", []) for number in range(KINDS if shape == MANY else 1)]


def drain(url: str, shape: str, jobs: int) -> float:
    """Phases that end per second while a worker drains so many jobs of a shape."""
    kinds = kinds_of(shape)
    with open_store(url) as store:
        store.upkeep.maintain()
        for start in range(0, jobs, 10_000):
            batch = [kinds[number % len(kinds)] for number in range(start, min(jobs, start + 10_000))]
            store.enqueue(
                [
                    NewJob(kind=kind, phase=f"{kind}:{labels[0]}" if labels else None, args=ARGS)
                    for kind, labels in batch
                ]
            )
    if not url.startswith("sqlite"):
        with psycopg.connect(url, autocommit=True) as connection:
            if shape != STALE:
                connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")
    ends = jobs * max(1, len(kinds[0][1]))
    return float(rate(url, ends, processors=PROCESSORS, shape=shape)["rate"])


def measured(admin: str, folder: str, rounds: int, jobs: int) -> Iterator[tuple[str, str, int, float]]:
    """Who, which shape, in which round, and at which rate; the shapes of a round take turns."""
    for number in range(rounds):
        for shape in SHAPES:
            with fresh_database(admin) as url:
                migrate(url)
                yield _noted("windlass", shape, number, drain(url, shape, jobs))
        for place, shape in enumerate(SHAPES):
            if shape != STALE:
                url = f"sqlite:///{folder}/shape-{number}-{place}.db"
                yield _noted("windlass-sqlite", shape, number, drain(url, shape, jobs))


def _noted(who: str, shape: str, number: int, rate: float) -> tuple[str, str, int, float]:
    say(f"round {number + 1}: {who}, {shape}: {rate:,.0f} phases/s")
    return who, shape, number, rate


def run(*, jobs: int, rounds: int, output: Path | None) -> None:
    """Measure the shapes by themselves: medians, and their ratios to the plain drain of the same round."""
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    with postgres() as admin, tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        for who, shape, _, rate in measured(admin, folder, rounds, jobs):
            rates[who, shape].append(rate)
    rows: list[Row] = []
    for (who, shape), found in rates.items():
        ratios = [one / plain for one, plain in zip(found, rates[who, PLAIN], strict=True)]
        rows.append(
            {
                "what": f"{who}: {shape}",
                "phases/s": statistics.median(found),
                "of plain": statistics.median(ratios),
                "least": min(ratios),
                "most": max(ratios),
            }
        )
    show("Shapes of work, medians of rounds that took turns", rows, output)
