"""``python -m bench.limited``: a worker process that serves an unlimited phase beside one that may be limited.

It prints a line when it serves, and ends, with one JSON line, when its standard input is closed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import click

from bench.worker import Clockwork
from windlass.app.app import App
from windlass.app.kinds import JobKind
from windlass.engine.tuning import tune_process


def make(
    url: str, limit: int | None, processors: int, on_noop: Callable[[], None] = lambda: None
) -> tuple[App, JobKind[..., Any]]:
    """An app with the two phases, and the second one; ``limit`` and ``processors`` are of that, None for no limit."""
    app = App(url)

    @app.job(processors=500)
    async def noop(text: str = "", number: int = 0, user_id: int = 0) -> None:
        on_noop()

    options: dict[str, Any] = {} if limit is None else {"limit": limit, "limit_key": "args.key"}

    @app.job(processors=processors, **options)
    async def visit(key: str, seconds: float) -> None:
        await asyncio.sleep(seconds)

    return app, visit


@click.command()
@click.argument("url")
@click.option(
    "--limit", default=0, help="Jobs of a key that may run at once in the phase beside; 0 for no limit."
)
@click.option("--processors", default=30, help="Of the phase beside, in this process.")
def main(url: str, limit: int, processors: int) -> None:
    """Run the queued jobs."""
    clockwork = Clockwork(())
    app, _ = make(url, limit or None, processors, lambda: clockwork.note(None))
    tune_process()
    engine = app.worker()
    cpu = time.process_time()
    engine.start()
    print("serves", flush=True)
    sys.stdin.read()
    spent = time.process_time() - cpu
    engine.stop(grace=0)
    app.close()
    facts = {
        "jobs": clockwork.handled,
        "began": clockwork.began_at,
        "ended": clockwork.ended_at,
        "cpu": spent,
    }
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
