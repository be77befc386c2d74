"""One run of the demonstration: enqueues orders, runs workers, and counts the effects."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from windlass.cli.exit_codes import say
from windlass.examples.demo.workers import Workers
from windlass.examples.parcels.ledger import Ledger
from windlass.examples.parcels.orders import KIND, NOT_WANTED, PACK, SHIP, day_of
from windlass.features import Store, open_store
from windlass.model import Counts, Job, JobFilter, State

CHECK_EVERY = 0.1
SHOW_EVERY = 1.0
KILL_AT = 0.3


@dataclass(frozen=True, slots=True)
class Facts:
    """The result of a run."""

    states: Mapping[str, int]
    reached_ship: int
    entries: Mapping[str, int]
    duplicates: int
    recovered: int
    killed: int
    seconds: float

    @property
    def missing(self) -> int:
        """Phases that jobs completed and that have no entry."""
        expected = {PACK: self.reached_ship, SHIP: self.states[State.COMPLETED]}
        return sum(abs(count - self.entries.get(phase, 0)) for phase, count in expected.items())

    @property
    def is_right(self) -> bool:
        return self.duplicates == 0 and self.missing == 0

    def rows(self) -> list[dict[str, Any]]:
        counts: dict[str, int | float] = {"jobs": sum(self.states.values()), **self.states}
        counts |= {f"{phase}: done": self.entries.get(phase, 0) for phase in (PACK, SHIP)}
        counts |= {
            "workers killed": self.killed,
            "jobs recovered": self.recovered,
            "effects twice": self.duplicates,
            "effects missing": self.missing,
            "seconds": round(self.seconds, 1),
        }
        return [{"what": what, "count": count} for what, count in counts.items()]


class Demo:
    """Enqueues a round (or continues an unfinished one), runs workers until it is done, and counts."""

    def __init__(self, url: str, parcels: int) -> None:
        self._url = url
        self._parcels = parcels
        self._ledger = Ledger(url)

    def run(self) -> Facts:
        began = time.monotonic()
        with open_store(self._url) as store:
            self._ledger.create()
            round_name = self._round(store)
            total = len(_jobs(store, round_name))
            killed = self._work(store, total)
            return self._count(store, round_name, killed, time.monotonic() - began)

    def _round(self, store: Store) -> str:
        """The round to work on: the unfinished one, or a new one."""
        newest = store.jobs.list(JobFilter(kind=KIND), limit=1).jobs
        left = _unfinished(store)
        if newest and left:
            say(f"continuing with {left:,} unfinished jobs of an earlier run")
            return newest[0].correlation_id
        name = f"parcels {datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}"
        orders = day_of(name, self._parcels)
        store.enqueue(orders)
        say(f"enqueued {len(orders):,} jobs")
        for order in orders:
            if order.id and isinstance(order.args, Mapping) and order.args["address"] == NOT_WANTED:
                store.jobs.cancel(order.id, "the customer changed their mind")
        return name

    def _work(self, store: Store, total: int) -> int:
        """Run workers until no job is left; returns how many workers were killed."""
        left, began = _unfinished(store), time.monotonic()
        at_start, is_reported = left, False
        with Workers(self._url) as workers, _ProgressLine() as line:
            workers.start()
            while left:
                workers.check()
                if workers.killed and not is_reported:
                    is_reported = True
                    line.interrupt(f"killed worker pid {workers.killed}; the others take over its jobs")
                if left <= at_start * (1 - KILL_AT):
                    workers.kill_one()
                line.show(_progress(store.phases.counts(), total, left, time.monotonic() - began))
                time.sleep(CHECK_EVERY)
                left = _unfinished(store)
            return int(workers.killed is not None)

    def _count(self, store: Store, round_name: str, killed: int, seconds: float) -> Facts:
        jobs = _jobs(store, round_name)
        states = Counter(str(job.state) for job in jobs)
        return Facts(
            states={str(state): states[state] for state in State if state.is_final or states[state]},
            reached_ship=sum(job.phase == SHIP for job in jobs),
            entries=self._ledger.entries(round_name),
            duplicates=self._ledger.duplicates(round_name),
            recovered=self._ledger.recovered(round_name),
            killed=killed,
            seconds=seconds,
        )


def _jobs(store: Store, round_name: str) -> list[Job]:
    found: list[Job] = []
    cursor = None
    while True:
        page = store.jobs.list(JobFilter(correlation_id=round_name), cursor=cursor, limit=1000)
        found += page.jobs
        cursor = page.next_cursor
        if cursor is None:
            return found


def _unfinished(store: Store) -> int:
    counts = store.phases.counts()
    ours = (counts.get(phase, Counts()) for phase in (PACK, SHIP))
    return sum(c.waiting + c.scheduled + c.queued + c.processing for c in ours)


def _progress(counts: Mapping[str, Counts], total: int, left: int, seconds: float) -> str:
    pack, ship = (counts.get(phase, Counts()) for phase in (PACK, SHIP))
    later = pack.scheduled + pack.waiting + ship.scheduled + ship.waiting
    return (
        f"{seconds:5.1f} s   {total - left:,} of {total:,} done   later {later:,}   "
        f"pack {pack.queued:,} queued, {pack.processing} held   ship {ship.queued:,} queued, {ship.processing} held"
    )


class _ProgressLine:
    """One line that changes on a terminal; a line a second elsewhere."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._width = 0
        self._show_at = 0.0

    def show(self, text: str) -> None:
        if self._live:
            print(f"\r{text.ljust(self._width)}", end="", file=sys.stderr, flush=True)
            self._width = len(text)
        elif time.monotonic() >= self._show_at:
            self._show_at = time.monotonic() + SHOW_EVERY
            say(text)

    def interrupt(self, text: str) -> None:
        """Show a line that stays."""
        self._end()
        say(text)

    def __enter__(self) -> _ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._live and self._width:
            print(file=sys.stderr)
            self._width = 0
