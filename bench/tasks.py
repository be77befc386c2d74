"""A drain of no-op async jobs with each way to run coroutines: a shared task, a task a job, an eager task a job (Python 3.12).

``python -m bench.tasks [--jobs N] [--rounds N]``. Each round measures each way in a process of its own, in turns.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

import click

from windlass import App
from windlass.engine.drain import Drain

WAYS = ("shared", "task", "eager") if sys.version_info >= (3, 12) else ("shared", "task")


@click.command()
@click.option("--jobs", default=60_000, show_default=True, help="Jobs of each drain.")
@click.option("--rounds", default=7, show_default=True, help="How often each way is measured, in turns.")
@click.option("--one", is_flag=True, hidden=True, help="Measure once, here, and print jobs per second.")
def main(jobs: int, rounds: int, one: bool) -> None:
    """Compare the ways to run coroutines."""
    if one:
        print(_drain(jobs))
        return
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(rounds):
        for way in WAYS[number % len(WAYS) :] + WAYS[: number % len(WAYS)]:
            rates[way].append(_measured(way, jobs))
    print(f"Python {sys.version.split()[0]}, {jobs:,} jobs, {rounds} rounds")
    for way, found in rates.items():
        ratios = [rate / shared for rate, shared in zip(found, rates["shared"], strict=True)]
        print(
            f"{way:7} median {statistics.median(found):8,.0f} jobs/s ({min(found):,.0f} to {max(found):,.0f}), "
            f"ratio to shared {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        )


def _measured(way: str, jobs: int) -> float:
    command = [sys.executable, "-m", "bench.tasks", "--one", "--jobs", str(jobs)]
    environment = {**os.environ, "WINDLASS_TASKS": way}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def _drain(jobs: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        app = App(f"sqlite:///{folder}/jobs.db")

        @app.job(name="noop", processors=500)
        async def noop(number: int, text: str) -> None: ...

        noop.enqueue_many({"number": number, "text": "x" * 75} for number in range(jobs))
        engine = app.worker()
        drain = Drain(engine, app.store)
        began = time.perf_counter()
        engine.start()
        drain.wait(600.0)
        took = time.perf_counter() - began
        engine.stop()
        app.close()
    return jobs / took


if __name__ == "__main__":
    main()
