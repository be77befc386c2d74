"""The one way jobs are submitted from Python: single ones from many callers are gathered into one insert and one commit.

A commit costs a disk flush, whoever shares it. So callers of one process that submit at the same moment go together: the first one
writes for all that wait, and hands the next batch to one of those. Jobs with keys, dependencies or ids of their own go alone: they
may wait for somebody else's transaction, or be refused.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from windlass.errors import StoreError, StoreUnreachableError
from windlass.model import Enqueued, NewJob
from windlass.store import Store
from windlass.store.bulk import Alike
from windlass.store.entries import check

MOST = 1000


class _Request:
    """One caller's job on its way."""

    __slots__ = ("answer", "done", "error", "future", "is_leader", "job")

    def __init__(self, job: NewJob, future: asyncio.Future[Enqueued] | None = None) -> None:
        self.job = job
        self.future = future
        self.done = threading.Event() if future is None else None
        self.answer: Enqueued | None = None
        self.error: Exception | None = None
        self.is_leader = False

    def result(self) -> Enqueued:
        if self.error is not None:
            raise self.error
        assert self.answer is not None
        return self.answer


class Submitter:
    """Submits jobs to one store. Safe to share between threads and event loops."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._waiting: list[_Request] = []
        self._is_led = False
        self._thread: ThreadPoolExecutor | None = None
        self._others: ThreadPoolExecutor | None = None

    def submit(self, job: NewJob) -> Enqueued:
        """Store one job durably; together with others that are being submitted right now."""
        effects = self._store.db.open_effects
        if (
            effects is not None and effects.all
        ):  # here: whoever writes for this caller has another thread and context
            effects.refuse(blocks=True)
        if not _is_plain(job):
            return self._store.enqueue([job])[0]
        check([job])
        request = _Request(job)
        with self._lock:
            self._waiting.append(request)
            request.is_leader = not self._is_led
            self._is_led = True
        if not request.is_leader and request.done is not None:
            request.done.wait()
        if request.is_leader:  # from the start, or because the one before handed it over
            self._write_one_batch()
        return request.result()

    async def submit_async(self, job: NewJob) -> Enqueued:
        """The same without blocking the event loop."""
        effects = self._store.db.open_effects
        if effects is not None and effects.all:
            effects.refuse(blocks=False)
        loop = asyncio.get_running_loop()
        if not _is_plain(job):
            return (await loop.run_in_executor(self._pool(), self._store.enqueue, [job]))[0]
        check([job])
        future: asyncio.Future[Enqueued] = loop.create_future()
        with self._lock:
            self._waiting.append(_Request(job, future))
            must_lead, self._is_led = not self._is_led, True
            if must_lead and self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="windlass-submit")
        if must_lead and self._thread is not None:
            self._thread.submit(self._write_all)
        return await future

    def submit_many(self, jobs: Sequence[NewJob] | Alike) -> list[Enqueued]:
        """Store many jobs, all or none."""
        if isinstance(jobs, Alike):
            return self._store.enqueue_alike(jobs)
        return self._store.enqueue(jobs)

    async def submit_many_async(self, jobs: Sequence[NewJob] | Alike) -> list[Enqueued]:
        """The same without blocking the event loop."""
        effects = self._store.db.open_effects
        if effects is not None and effects.all:
            effects.refuse(blocks=False)
        loop = asyncio.get_running_loop()
        if isinstance(jobs, Alike):  # validators are the application's: they run where it called
            return await loop.run_in_executor(self._pool(), self._store.enqueue_alike, jobs.encoded())
        return await loop.run_in_executor(self._pool(), self._store.enqueue, jobs)

    def close(self) -> None:
        for pool in (self._thread, self._others):
            if pool is not None:
                pool.shutdown()

    # ------------------------------------------------------------------ leading

    def _write_one_batch(self) -> None:
        """Write for all that wait, then hand over to one of those that came meanwhile."""
        with self._lock:
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        try:
            self._write(batch)
        finally:
            with self._lock:
                following = self._waiting[0] if self._waiting else None
                self._is_led = following is not None
            if following is not None:
                if following.done is not None:
                    following.is_leader = True
                    following.done.set()
                else:
                    with self._lock:
                        if self._thread is None:
                            self._thread = ThreadPoolExecutor(1, thread_name_prefix="windlass-submit")
                    self._thread.submit(self._write_all)

    def _write_all(self) -> None:
        """Write batch after batch until nobody waits: the event loop's leader."""
        while True:
            with self._lock:
                batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                if not batch:
                    self._is_led = False
                    return
            self._write(batch)

    def _write(self, batch: Sequence[_Request]) -> None:
        try:
            for request, answer in zip(batch, self._store.enqueue([item.job for item in batch]), strict=True):
                request.answer = answer
        except StoreUnreachableError as error:
            for request in batch:
                request.error = error
        except StoreError as error:
            self._write_apart(
                batch, error
            )  # refused as a whole, so nothing is stored: find out whose fault it was
        except Exception as error:  # noqa: BLE001  every caller must hear of it
            for request in batch:
                request.error = error
        self._tell(batch)

    def _write_apart(self, batch: Sequence[_Request], error: StoreError) -> None:
        for request in batch:
            try:
                request.answer = self._store.enqueue([request.job])[0] if len(batch) > 1 else None
                request.error = None if request.answer else error
            except Exception as own:  # noqa: BLE001  each caller gets its own
                request.error = own

    def _tell(self, batch: Sequence[_Request]) -> None:
        loops: dict[asyncio.AbstractEventLoop, list[_Request]] = defaultdict(list)
        for request in batch:
            if request.done is not None:
                request.done.set()
            elif request.future is not None:
                loops[request.future.get_loop()].append(request)
        for loop, requests in loops.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, requests)

    def _pool(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._others is None:
                self._others = ThreadPoolExecutor(4, thread_name_prefix="windlass-submit-alone")
            return self._others


def _resolve(requests: Sequence[_Request]) -> None:
    for request in requests:
        if request.future is not None and not request.future.done():
            if request.error is not None:
                request.future.set_exception(request.error)
            else:
                request.future.set_result(request.result())


def _is_plain(job: NewJob) -> bool:
    is_own = job.key is not None or job.debounce is not None or job.throttle is not None
    return not is_own and not job.after and job.id is None and not job.heir_of
