"""Watchers of everything: what one costs a drain, and what fifty cost beside one.

A worker process runs the jobs; this process submits them and watches, as a server of dashboards does. Drains without and with a watcher alternate.
Statements are counted, not timed: a busy machine does not change them.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.limited import make
from bench.report import Row, say, show
from bench.server import postgres
from bench.waiting import drain, worker
from windlass import App

SHARE = 0.9
"""Of the rate of a drain that nobody watches."""
MORE = 1.1
"""Times the statements of one watcher: a sample may be under way when counting begins."""


def run(*, watchers: int, samples: int, jobs: int, rounds: int, output: Path | None) -> bool:
    """Measure both databases; returns whether a watched drain keeps its rate and many watchers cost as much as one."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        rows.append(_measure(f"sqlite:///{folder}/jobs.db", watchers, samples, jobs, rounds))
    with postgres() as url:
        rows.append(_measure(url, watchers, samples, jobs, rounds))
    show(
        f"Watching: drains of {jobs:,} jobs, {rounds} rounds; {samples} samples of 1 and of {watchers} watchers",
        rows,
        output,
    )
    return all(
        row["watched / not"] >= SHARE and row["statements/s, many"] <= MORE * row["statements/s, one"]
        for row in rows
    )


def _measure(url: str, watchers: int, samples: int, jobs: int, rounds: int) -> Row:
    name = url.partition(":")[0]
    app, _ = make(url, None, 1)
    with worker(url):
        drain(app, jobs)  # connects, prepares, loads
        say(f"{name}: {rounds} drains without and with a watcher")
        ratios = []
        for number in range(rounds):
            rates = {}
            for is_watched in (True, False) if number % 2 else (False, True):
                with watching(app, 1 if is_watched else 0):
                    rates[is_watched] = drain(app, jobs)
            ratios.append(rates[True] / rates[False])
        say(f"{name}: statements of 1 and of {watchers} watchers")
        one, many = (_statements(app, count, samples) for count in (1, watchers))
    app.close()
    return {
        "database": name,
        "watched / not": statistics.median(ratios),
        "from": min(ratios),
        "to": max(ratios),
        "statements/s, one": one,
        "statements/s, many": many,
    }


@contextmanager
def watching(app: App, watchers: int) -> Iterator[list[int]]:
    """So many watchers, each on a thread of its own; the list has the newest sample that each got. All have a sample before the block begins."""
    seen = [0] * watchers
    streams = [app.events() for _ in range(watchers)]

    def watch(number: int) -> None:
        for sample in streams[number]:
            seen[number] = sample.number

    threads = [threading.Thread(target=watch, args=(number,)) for number in range(watchers)]
    for thread in threads:
        thread.start()
    try:
        while not all(seen):
            time.sleep(0.01)
        yield seen
    finally:
        for stream in streams:
            stream.close()
        for thread in threads:
            thread.join()


def _statements(app: App, watchers: int, samples: int) -> float:
    """Statements a second of this process while so many samples are watched."""
    with watching(app, watchers) as seen, _counted(app.store.db) as sent:
        first, began = min(seen), time.monotonic()
        while min(seen) < first + samples:
            time.sleep(0.01)
        return sent[0] / (time.monotonic() - began)


@contextmanager
def _counted(db: Any) -> Iterator[list[int]]:
    """Counts the statements that are sent to a database."""
    sent = [0]

    def counting(send: Callable[..., Any]) -> Callable[..., Any]:
        def call(verb: str, **parameters: object) -> Any:
            sent[0] += 1
            return send(verb, **parameters)

        return call

    for name in ("read", "run"):
        setattr(db, name, counting(getattr(db, name)))
    try:
        yield sent
    finally:
        del db.read, db.run
