"""``python -m bench.limited``: a worker process that serves an unlimited phase beside one that may be limited, and prints one JSON line.

It ends when it has run as many jobs of the unlimited phase as asked for.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import click

from bench.worker import Clockwork
from windlass.app import App, JobKind
from windlass.engine.tuning import tune_process


def make(
    url: str, limit: int | None, on_noop: Callable[[], None] = lambda: None
) -> tuple[App, JobKind[..., Any]]:
    """An app with the two phases, and the second one; ``limit`` is per key of that, None for none."""
    app = App(url)

    @app.job(processors=500)
    async def noop(text: str = "", number: int = 0, user_id: int = 0) -> None:
        on_noop()

    options: dict[str, Any] = {} if limit is None else {"limit": limit, "limit_key": "args.key"}

    @app.job(processors=30, **options)
    async def visit(key: str, seconds: float) -> None:
        await asyncio.sleep(seconds)

    return app, visit


@click.command()
@click.argument("url")
@click.option("--jobs", default=50_000)
@click.option(
    "--limit", default=0, help="Jobs of a key that may run at once in the phase beside; 0 for no limit."
)
def main(url: str, jobs: int, limit: int) -> None:
    """Run the queued jobs."""
    clockwork, enough = Clockwork(()), threading.Event()

    def note() -> None:
        clockwork.note(None)
        if clockwork.handled >= jobs:
            enough.set()

    app, _ = make(url, limit or None, note)
    tune_process()
    engine = app.worker()
    cpu = time.process_time()
    engine.start()
    if not enough.wait(300):
        raise SystemExit(f"only {clockwork.handled} of {jobs} jobs ran")
    seconds, spent = clockwork.ended_at - clockwork.began_at, time.process_time() - cpu
    beside = app.store.phases.counts().get("visit")
    print(
        json.dumps(
            {
                "rate": jobs / seconds,
                "cpu_us": spent / jobs * 1e6,
                "visits": (beside.completed if beside else 0) / seconds,
            }
        ),
        flush=True,
    )
    engine.stop(grace=0)
    app.close()


if __name__ == "__main__":
    main()
