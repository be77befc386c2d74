"""One run of the main demonstration: pages through three phases, a report in chunks, a summary that waits for it.

The engine runs in this process. Ctrl-C stops it in order; the next start continues with the unfinished jobs in the file.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from windlass.cli.exit_codes import ExitCode, say
from windlass.examples.demo.bars import Bars
from windlass.examples.visibility.jobs import RECORDS, app, hours_report, summary, visibility
from windlass.examples.visibility.servers import PAGES, servers
from windlass.examples.visibility.tables import Tables
from windlass.features import Store
from windlass.model import Job, JobFilter, State

CHECK_EVERY = 0.1
LABELS = ("website-analysis", "prompt-forming", "model-analysis")
KINDS = ("site-visibility", "hours-report", "summary")


@dataclass(frozen=True, slots=True)
class Facts:
    """The result of a round."""

    states: dict[str, int]
    outputs: int
    records: int
    twice: int
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether all jobs completed, each page with both outputs, each record once."""
        jobs = len(PAGES) + 2
        return (
            self.states == {State.COMPLETED: jobs}
            and self.outputs == 2 * len(PAGES)
            and (self.records, self.twice) == (RECORDS, 0)
        )

    def rows(self) -> list[dict[str, Any]]:
        counts: dict[str, int | float] = {"jobs": sum(self.states.values()), **self.states}
        counts |= {"phase outputs": self.outputs, "records": self.records, "records twice": self.twice}
        counts["seconds"] = round(self.seconds, 1)
        return [{"what": what, "count": count} for what, count in counts.items()]


def run(url: str) -> tuple[Facts | None, ExitCode]:
    """Run a round to its end, or until it is interrupted; returns no facts then."""
    os.environ["WINDLASS_DATABASE_URL"] = url
    began = time.monotonic()
    try:
        store = app.store  # makes the file, or raises
        Tables.create(url)
        with servers() as (site, model), _interrupts() as stopping:
            os.environ["WINDLASS_DEMO_SITE"], os.environ["WINDLASS_DEMO_MODEL"] = site, model
            say(f"pages on {site}, a model on {model}")
            name = _round(store)
            engine = app.worker(grace=3.0, lease=6.0, heartbeat=2.0, margin=1.0, recovery=1.0)
            engine.start()
            try:
                _watch(store, name, stopping)
            finally:
                engine.stop()
        if stopping.is_set():
            stays = url.startswith("sqlite:")  # a private PostgreSQL is removed
            say(
                "stopped; the next start continues with the unfinished jobs"
                if stays
                else "stopped, and its database is removed"
            )
            return None, ExitCode.INTERRUPTED
        return _count(store, name, time.monotonic() - began), ExitCode.DONE
    finally:
        app.close()


def _round(store: Store) -> str:
    """The round to work on: the unfinished one, or a new one."""
    left = [job for job in _jobs(store) if not job.state.is_final]
    if left:
        say(f"continuing with {len(left)} unfinished jobs of an earlier run")
        return left[0].correlation_id
    name = f"demo {datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}"
    options = {"correlation_id": name}
    visibility.enqueue_many({"path": path, **options} for path in PAGES)
    report = hours_report.enqueue(county="Kent", **options)
    summary.enqueue(report=report.id, after=[report], **options)
    say(f"enqueued {len(PAGES)} pages, a report of {RECORDS:,} records and its summary")
    return name


def _watch(store: Store, name: str, stopping: threading.Event) -> None:
    with Bars([*LABELS, "report", "summary"]) as bars:
        while True:
            jobs = _jobs(store, name)
            _show(store, bars, jobs)
            if stopping.is_set() or all(job.state.is_final for job in jobs):
                return
            stopping.wait(CHECK_EVERY)


def _show(store: Store, bars: Bars, jobs: list[Job]) -> None:
    pages = [job for job in jobs if job.kind == KINDS[0]]
    for place, label in enumerate(LABELS):
        passed = sum(_place(job) > place for job in pages)
        bars.show(label, passed, len(pages))
    for job in jobs:
        if job.kind == "hours-report":
            progress = job.progress or store.jobs.progress(job.id)
            done = progress.done if progress else 0
            bars.show("report", done, RECORDS, rate=progress.rate if progress else None)
        elif job.kind == "summary":
            bars.show("summary", int(job.state.is_final), 1)


def _place(job: Job) -> int:
    """How many phases a page has completed."""
    if job.state.is_final:
        return len(LABELS)
    return LABELS.index(job.phase.partition(":")[2])


def _count(store: Store, name: str, seconds: float) -> Facts:
    jobs = _jobs(store, name)
    added: dict[str, Any] = next((job.result for job in jobs if job.kind == "summary" and job.result), {})
    return Facts(
        states=dict(Counter(str(job.state) for job in jobs)),
        outputs=sum(len(job.outputs) for job in jobs if job.kind == KINDS[0]),
        records=added.get("records", 0),
        twice=added.get("twice", 0),
        seconds=seconds,
    )


def _jobs(store: Store, name: str | None = None) -> list[Job]:
    found: list[Job] = []
    for kind in KINDS:
        page = store.jobs.list(JobFilter(kind=kind, correlation_id=name), limit=1000)
        found += page.jobs
    return found


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets; Python handles a second one."""
    stopping = threading.Event()
    before: dict[int, Any] = {}

    def stop(number: int, _frame: object) -> None:
        stopping.set()
        signal.signal(number, signal.SIG_DFL)

    for one in (signal.SIGINT, signal.SIGTERM):
        before[one] = signal.signal(one, stop)
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
