"""Waits for the ends of jobs: two threads and one connection a process (two on SQLite), however many callers wait.

One thread listens for announcements, and one reads for all callers and for the other: on SQLite each thread that reads has a connection.

Workers announce ends while callers wait (``engine/announcer.py``); a job without a waiting caller costs nothing. Announcements are hints: each
waited-for job is also read again after growing pauses, which is all there is where notifications cannot be had.

Each read is for all jobs that are due to be read.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Collection, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from windlass import forking
from windlass.errors import ConfigError, JobNotFoundError, StoreError, WaitEndedError, WindlassError
from windlass.model import as_duration
from windlass.observe.logger import get_logger, thread
from windlass.store.database import Listener
from windlass.store.jobs.ends import EndedResult
from windlass.waiting.reading import OneThread

if TYPE_CHECKING:
    from windlass.features import Store

log = get_logger("windlass.waiting")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
"""Seconds between two reads of a job whose end is not announced: the first, and the longest."""
PAGE = 500
"""The most jobs that one read asks for."""
LISTEN_FOR = 0.25
ASK_EVERY = 5.0
"""Seconds after which workers are asked again to announce ends, so that workers that start later announce them, too."""
SKEW = timedelta(days=1)
"""How far the clocks of this machine and of the database may differ."""
LINGER = 5.0
"""Seconds that the threads stay after the last caller has left."""
TRY_AGAIN = 0.5
REST = 8
"""A round that took n seconds is followed by a rest of at least n times this, where every commit is a hint."""

Ended = Future[EndedResult]


class _WaitedFor:
    """A job that callers wait for."""

    __slots__ = ("callers", "due_at", "pause", "since")

    def __init__(self) -> None:
        self.callers: list[Ended] = []
        self.due_at = time.monotonic() + FIRST_PAUSE
        self.pause = FIRST_PAUSE
        self.since = datetime.now(UTC) - SKEW
        """The job had not ended by then, as its first read shows."""


class Waiter:
    """Waits for ends of jobs of one store. Safe to share between threads and event loops, and to use in a forked child."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._begin()
        forking.watch(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, _WaitedFor] = {}
        self._new: set[str] = set()
        self._thread: threading.Thread | None = None
        self.reader = OneThread("windlass-wait-read", LINGER)
        """The thread that reads for all callers."""
        self._over = threading.Event()
        self._listener: Listener | None = None

    def after_fork_in_child(self) -> None:
        """Begin anew: the thread and the callers are the parent's."""
        self._begin()

    def wait(self, job_id: str, timeout: float | timedelta | None = None) -> EndedResult | None:
        """Wait until a job has ended; None after ``timeout`` seconds. ``JobNotFoundError`` if there is no such job."""
        self._refuse_in_transaction(blocks=True)
        seconds = _checked(timeout)
        ended = self._add(job_id)
        try:
            self.reader.submit(self._read_new, job_id).result()
            return ended.result(seconds)
        except FutureTimeout:
            if ended.done():  # an error of the job's own, or an end at the last moment
                return ended.result()
            return None
        finally:
            self._remove(job_id, ended)

    async def wait_async(self, job_id: str, timeout: float | timedelta | None = None) -> EndedResult | None:  # noqa: ASYNC109  as the sync form
        """``wait`` without blocking the event loop."""
        self._refuse_in_transaction(blocks=False)
        seconds = _checked(timeout)
        ended = self._add(job_id)
        try:
            async with asyncio.timeout(seconds):
                if job_id in self._new:
                    await asyncio.wrap_future(self.reader.submit(self._read_new, job_id))
                return await asyncio.wrap_future(ended)
        except TimeoutError:
            return None
        finally:
            self._remove(job_id, ended)

    def _refuse_in_transaction(self, *, blocks: bool) -> None:
        """Refuse a wait while the caller holds the one write lock of a SQLite file: the job could not end meanwhile."""
        effects = self._store.db.open_effects
        if effects is not None and effects.all:
            effects.refuse(blocks=blocks)

    def waited_for(self) -> int:
        """How many jobs callers wait for."""
        return len(self._jobs)

    def close(self) -> None:
        """End the threads; callers that still wait get ``WaitEndedError``. A later call begins anew."""
        with self._lock:
            left = list(self._jobs)
            running, self._thread = self._thread, None
            self._over.set()
            self._over = threading.Event()
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.interrupt()
        for job_id in left:
            self._settle(job_id, WaitEndedError(job_id))
        if running is not None and running is not threading.current_thread():
            running.join(LISTEN_FOR + 1)
        self.reader.end()

    # ------------------------------------------------------------------ callers

    def _add(self, job_id: str) -> Ended:
        ended: Ended = Future()
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None:
                job = self._jobs[job_id] = _WaitedFor()
            job.callers.append(ended)
            self._new.add(job_id)
            if self._thread is None:
                over = self._over
                started = thread(lambda: self._run(over), "windlass-waiter")
                try:
                    started.start()
                except BaseException:  # no thread can be started
                    del self._jobs[job_id]
                    self._new.discard(job_id)
                    raise
                self._thread = started
        return ended

    def _remove(self, job_id: str, ended: Ended) -> None:
        with self._lock:
            job = self._jobs.get(job_id)
            if job is not None and ended in job.callers:
                job.callers.remove(ended)
                if not job.callers:
                    del self._jobs[job_id]
                    self._new.discard(job_id)

    def _read_new(self, job_id: str) -> None:
        """Read the jobs that were added since, this one among them, unless that was done for another caller; the reading thread only."""
        with self._lock:
            if job_id not in self._new:
                return
            new, self._new = self._new, set()
        try:
            self._read(new)
            self._refuse_missing(new)
        except BaseException:
            with self._lock:
                self._new |= new & self._jobs.keys()
            raise

    # ------------------------------------------------------------------ reading

    def _read(self, ids: Iterable[str], since: datetime | None = None) -> None:
        """Read which of these jobs have ended, and give their ends to the callers."""
        wanted = sorted(ids)
        for start in range(0, len(wanted), PAGE):
            for ended in self._store.ends.of(wanted[start : start + PAGE], since):
                self._settle(ended.id, ended)

    def _refuse_missing(self, ids: Collection[str]) -> None:
        with self._lock:
            left = sorted(ids & self._jobs.keys())
        for start in range(0, len(left), PAGE):
            page = left[start : start + PAGE]
            there = self._store.ends.present(page)
            # A job may have ended and been read between the two reads: then no caller waits for it any more.
            for job_id in page:
                if job_id not in there:
                    self._settle(job_id, JobNotFoundError(job_id))

    def _settle(self, job_id: str, ended: EndedResult | WindlassError) -> None:
        with self._lock:
            job = self._jobs.pop(job_id, None)
            self._new.discard(job_id)
        for caller in job.callers if job is not None else ():
            _settle(caller, ended)

    # ------------------------------------------------------------------ the thread

    def _run(self, over: threading.Event) -> None:
        while not over.is_set():
            try:
                listener = self._store.ends.listen()
            except StoreError as error:
                if self._is_left(over, error):
                    return
                continue
            with self._lock:
                if self._over is over:
                    self._listener = listener
            try:
                if self._listen(listener, over):
                    return
            except StoreError as error:
                log.warning(
                    "the ends of waited-for jobs could not be read (%s); trying again", type(error).__name__
                )
                if self._is_left(over, error):
                    return
            except Exception:
                log.exception("unexpected error while waiting for ends; trying again")
                over.wait(TRY_AGAIN)
            finally:
                with self._lock:
                    if self._listener is listener:
                        self._listener = None
                listener.close()

    def _is_left(self, over: threading.Event, error: StoreError) -> bool:
        """Whether the thread ends after an error: no caller waits, or the store was closed, and then the callers get the error. Else it
        waits a moment."""
        if self._store.is_closed:
            with self._lock:
                left = list(self._jobs)
            for job_id in left:
                self._settle(job_id, error)
        with self._lock:
            if not self._jobs and self._over is over:
                self._thread = None
                return True
        return over.wait(TRY_AGAIN)

    def _listen(self, listener: Listener, over: threading.Event) -> bool:
        """Receive announcements and read what is due; True when no caller has waited for a while."""
        ask_at = 0.0
        last_wanted = time.monotonic()
        rest_until = 0.0
        hinted: set[str] = set()
        while not over.is_set():
            now = time.monotonic()
            with self._lock:
                if self._jobs:
                    last_wanted = now
                elif now - last_wanted > LINGER and self._over is over:
                    self._thread = None
                    return True
                next_due = min((job.due_at for job in self._jobs.values()), default=now + LISTEN_FOR)
            if self._jobs and now >= ask_at:
                self.reader.submit(self._store.ends.ask).result()
                ask_at = now + ASK_EVERY
            if not hinted:
                until = min(next_due, now + LISTEN_FOR)
                hinted |= self._hinted(listener.wait(max(0.0, until - now)))
            if (wait := rest_until - time.monotonic()) > 0:
                over.wait(min(wait, LISTEN_FOR))
                continue
            began = time.monotonic()
            if due := self._due(hinted, began):
                self.reader.submit(self._read, due, self._since(due)).result()
                if self._store.ends.hints_without_ids:
                    rest_until = time.monotonic() + REST * (time.monotonic() - began)
            hinted.clear()
        return True

    def _hinted(self, hints: Iterable[str]) -> set[str]:
        """The waited-for jobs that these announcements are about."""
        found = self._store.ends.named(hints)
        with self._lock:
            return set(self._jobs) if found is None else {job for job in found if job in self._jobs}

    def _since(self, due: set[str]) -> datetime | None:
        """A moment at which none of these jobs had ended; None if it is not known: one was not read yet, or time is not the machine's."""
        if self._store.db.clock is not None:
            return None
        with self._lock:
            if due & self._new:
                return None
            return min((self._jobs[job].since for job in due if job in self._jobs), default=None)

    def _due(self, hinted: set[str], now: float) -> set[str]:
        """The jobs to read now: those that were announced, and those whose pause is over."""
        with self._lock:
            for job_id, job in self._jobs.items():
                if job.due_at <= now:
                    hinted.add(job_id)
                    job.pause = min(LONGEST_PAUSE, 2 * job.pause)
                    job.due_at = now + job.pause
            return hinted & self._jobs.keys()


def _checked(timeout: Any) -> float | None:
    """A time-out in seconds; None for one that never comes."""
    seconds = as_duration(timeout)
    if seconds is None or timeout == math.inf:
        return None
    if not isinstance(seconds, timedelta):
        raise ConfigError("timeout", timeout, "seconds as a number, a timedelta, or None")
    return max(0.0, min(seconds.total_seconds(), threading.TIMEOUT_MAX))


def _settle(caller: Ended, ended: EndedResult | WindlassError) -> None:
    """Give a caller its end, unless it has gone away."""
    if not caller.set_running_or_notify_cancel():
        return
    if isinstance(ended, WindlassError):
        caller.set_exception(ended)
    else:
        caller.set_result(ended)


__all__ = ["EndedResult", "Waiter"]
