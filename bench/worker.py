"""``python -m bench.worker``: a worker process of Windlass that measures itself and prints one JSON line.

It runs no-op jobs until it has handled as many as asked for, or until its standard input is closed.
"""

from __future__ import annotations

import json
import resource
import select
import sys
import threading
import time
from pathlib import Path
from typing import Any

import click

from bench.shapes import kinds_of
from windlass import App
from windlass.engine.tuning import tune_process

PAGE = resource.getpagesize()


class Clockwork:
    """What the handlers of this process did: when the first started, how long jobs waited, memory on the way."""

    def __init__(self, marks: tuple[int, ...]) -> None:
        self.handled = 0
        self.began_at = 0.0
        self.ended_at = 0.0
        self.starts: list[tuple[float, float]] = []
        self.rss: dict[int, float] = {}
        self._marks = frozenset(marks)

    def note(self, sent_at: float | None) -> None:
        now = time.time()
        if not self.handled:
            self.began_at = now
        self.handled += 1
        self.ended_at = now
        if sent_at is not None:
            self.starts.append((sent_at, now))
        if self.handled in self._marks:
            self.rss[self.handled] = rss_mb()


def rss_mb() -> float:
    """This process's resident memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1024**2


@click.command()
@click.argument("url")
@click.option("--jobs", default=0, help="End after so many; 0: when standard input is closed.")
@click.option("--processors", default=500)
@click.option("--marks", default="", help="Note memory after so many jobs, for example 50000,1000000.")
@click.option(
    "--shape",
    default="",
    help="Run the kinds of this shape of bench/shapes.py, and count the ends of phases.",
)
def main(url: str, jobs: int, processors: int, marks: str, shape: str) -> None:
    """Run jobs of the kind ``noop`` (number, text, sent_at), or those of a shape."""
    clockwork = Clockwork(tuple(int(mark) for mark in marks.split(",") if mark))
    enough = threading.Event()
    app = App(url)

    async def noop(text: str = "", number: int = 0, user_id: int = 0, sent_at: float | None = None) -> None:
        clockwork.note(sent_at)
        if jobs and clockwork.handled >= jobs:
            enough.set()

    for kind, labels in kinds_of(shape) if shape else [("noop", [])]:
        if not labels:
            app.job(name=kind, processors=processors)(noop)
            continue
        pipeline = app.pipeline(kind)
        for label in labels:
            pipeline.phase(label, processors=processors)(noop)

    tune_process()
    engine = app.worker()
    engine.start()
    print(json.dumps({"ready": True}), flush=True)
    cpu = time.process_time()
    while not enough.wait(0.005):
        if not jobs and select.select([sys.stdin], [], [], 0.05)[0] and not sys.stdin.read(1):
            break
    handled, ended = clockwork.handled, clockwork.ended_at
    spent_cpu = time.process_time() - cpu
    engine.stop()
    app.close()
    seconds = ended - clockwork.began_at
    facts: dict[str, Any] = {
        "handled": handled,
        "seconds": seconds,
        "rate": handled / seconds if seconds > 0 else 0.0,
        "cpu_us": spent_cpu / max(1, handled) * 1e6,
        "rss_mb": rss_mb(),
        "rss": clockwork.rss,
        "starts": clockwork.starts,
    }
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
