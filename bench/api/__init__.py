"""The REST API: reads with a million jobs, submits beside ``enqueue_async``, many clients for a minute, and streams."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.report import Row, say, show
from bench.server import postgres


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    jobs: int = 1_000_000
    rounds: int = 40
    """How often each read is measured."""
    callers: int = 32
    """Callers that submit at once."""
    seconds: float = 4.0
    """How long each way to submit is measured, in each of ``turns``."""
    turns: int = 5
    clients: int = 200
    minute: float = 60.0
    streams: int = 1000


SHORT = Scale(jobs=20_000, rounds=2, callers=4, seconds=0.3, turns=1, clients=10, minute=3.0, streams=20)


def run(parts: Sequence[str], scale: Scale, output: Path | None) -> bool:
    """Measure the parts; returns whether all claims hold."""
    from bench.api import many, reads, streams, submits

    measured = {
        "reads": (partial(reads.measure, jobs=scale.jobs, rounds=scale.rounds), reads.broken),
        "submits": (partial(submits.measure, callers=scale.callers, seconds=scale.seconds, rounds=scale.turns), submits.broken),
        "clients": (partial(many.measure, clients=scale.clients, seconds=scale.minute), many.broken),
        "streams": (partial(streams.measure, streams=scale.streams, seconds=scale.seconds, rounds=scale.turns), streams.broken),
    }  # fmt: skip
    rows: list[Row] = []
    broken: list[str] = []
    for part in parts or measured:
        measure, judge = measured[part]
        found: list[Row] = []
        for database in (_sqlite, _postgres):
            with database() as (name, url):
                say(f"{part} on {name}")
                found += [{"part": part, **row} for row in measure(name, url)]
        show(f"{part} over HTTP", [{key: row[key] for key in row if key != "part"} for row in found], None)
        rows += found
        broken += judge(found)
    if output is not None:
        output.write_text(
            json.dumps({"title": "The REST API", "rows": rows, "broken": broken}, indent=2) + "\n"
        )
    print(f"\n{len(broken)} claims do not hold" + "".join(f"\n  {line}" for line in broken))
    return not broken


@contextmanager
def _sqlite() -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        yield "SQLite", f"sqlite:///{folder}/jobs.db"


@contextmanager
def _postgres() -> Iterator[tuple[str, str]]:
    with postgres() as url:
        yield "PostgreSQL", url
