"""Submits jobs: single jobs of many callers are gathered into one insert and one commit.

A commit costs one disk flush for any number of jobs. So callers of one process that submit at the same moment go together: the first one
writes for all that wait, and hands the next batch to one of those. Jobs with keys, dependencies or ids of their own go alone: they
may wait for another session's transaction, or be refused.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING

from windlass import forking
from windlass.errors import FAULTS_OF_THE_STORE, EnqueueUnknownError, StoreUnreachableError, WindlassError
from windlass.model import Enqueued, NewJob
from windlass.store.jobs.checked import ALONE, CheckedJob, check
from windlass.store.jobs.copy import SameKindJobs
from windlass.waiting.waiter import Waiter

if TYPE_CHECKING:
    from windlass.features import Store

MOST = 1000
INTERRUPTED = (
    "the thread that stored this job together with its own was stopped by an exception of its own: whether the job is stored is unknown. "
    "Read the job with app.handle(id), or repeat the call; with a key, or an id of the job's own, a repeat makes no second job"
)
NOT_SENT = (
    "the database could not be reached while jobs of other callers were stored one by one; this job was not sent, and is not stored. "
    "Repeat the call when the database answers"
)


class _Latch:
    """An event that one thread waits for, once. Not ``threading.Event``: a signal handler's exception can leave an Event's own lock taken, and the thread that sets it
    then waits forever. Here nothing but a lock's own methods can be interrupted, and those are either done or not."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        try:  # noqa: SIM105  a third of the calls
            self._lock.release()
        except RuntimeError:  # it is set
            pass

    def wait(self) -> None:
        self._lock.acquire()


class _Request:
    """One caller's job that is being submitted."""

    __slots__ = ("done", "enqueued", "error", "future", "job")

    def __init__(self, job: CheckedJob, future: asyncio.Future[Enqueued] | None = None) -> None:
        self.job = job
        self.future = future
        self.done: _Latch | None = None
        """What the thread of this request waits for; none where it leads from the start, and for a coroutine."""
        self.enqueued: Enqueued | None = None
        self.error: Exception | None = None


class _WriterThread:
    """The thread that writes for coroutines. Not an executor: its futures, locks and conditions cost a tenth of an ``enqueue_async``."""

    def __init__(self, write_all: Callable[[_Request], None]) -> None:
        self._write_all = write_all
        self._leaders: SimpleQueue[_Request | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="windlass-submit", daemon=True)
        self._thread.start()

    def write_for(self, leader: _Request) -> None:
        """Have the thread write for all that wait, as long as this request leads. ``RuntimeError`` after ``close``: no thread would write."""
        with self._lock:
            if self._is_closed:
                raise RuntimeError("a job cannot be stored after shutdown: its app was closed")
            self._leaders.put(leader)

    def close(self) -> None:
        """End the thread once it has written for all that it was given."""
        with self._lock:
            self._is_closed = True
            self._leaders.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (leader := self._leaders.get()) is not None:
            with suppress(BaseException):  # its callers have the error
                self._write_all(leader)


class Submitter:
    """Submits jobs to one store. Safe to share between threads and event loops, and to use in a forked child."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._begin()
        forking.watch(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[_Request] = []
        # The request whose thread writes for all (of a coroutine's request: the thread that was started for it). One attribute, so
        # that an exception of a signal handler finds the lead taken or not, and never half of it.
        self._leader: _Request | None = None
        self._writer: _WriterThread | None = None
        self._others: ThreadPoolExecutor | None = None
        self._waiter: Waiter | None = None

    @property
    def waiter(self) -> Waiter:
        """What waits for ends of jobs in this process; made when it is first used."""
        with self._lock:
            if self._waiter is None:
                self._waiter = Waiter(self.store)
            return self._waiter

    def after_fork_in_child(self) -> None:
        """Begin anew: the threads that lead and wait are the parent's."""
        self._begin()

    def submit(self, job: NewJob) -> Enqueued:
        """Store one job durably; together with others that are being submitted right now."""
        effects = self.store.db.open_effects
        if (
            effects is not None and effects.all
        ):  # here: the thread that writes for this caller has another context
            effects.refuse(blocks=True)
        (checked,) = check([job])
        if checked.way == ALONE:
            return self.store.enqueue_checked([checked])[0]
        request = _Request(checked)
        try:
            with self._lock:
                if self._leader is not None:
                    request.done = _Latch()
                self._waiting.append(request)
                if self._leader is None:
                    self._leader = request
            if self._leader is not request and request.done is not None:
                request.done.wait()
            if self._leader is request:  # from the start, or because the one before handed it over
                self._write_one_batch()
        except BaseException:  # a signal handler's: a time-out, Ctrl-C, the end of the process
            _despite_interrupts(lambda: self._leave(request))
            raise
        if request.error is not None:
            raise request.error
        assert request.enqueued is not None
        return request.enqueued

    async def submit_async(self, job: NewJob) -> Enqueued:
        """``submit`` without blocking the event loop."""
        effects = self.store.db.open_effects
        if effects is not None and effects.all:
            effects.refuse(blocks=False)
        loop = asyncio.get_running_loop()
        (checked,) = check([job])
        if checked.way == ALONE:
            return (await loop.run_in_executor(self._pool(), self.store.enqueue_checked, [checked]))[0]
        future: asyncio.Future[Enqueued] = loop.create_future()
        request = _Request(checked, future)
        try:
            with self._lock:
                self._waiting.append(request)
                must_lead = self._leader is None
                if must_lead:
                    self._leader = request
            if must_lead:
                self._start(request)
        except BaseException:
            _despite_interrupts(lambda: self._leave(request))
            raise
        return await future

    def submit_many(self, jobs: Sequence[NewJob] | SameKindJobs) -> list[Enqueued]:
        """Store many jobs, all or none."""
        if isinstance(jobs, SameKindJobs):
            return self.store.enqueue_alike(jobs)
        return self.store.enqueue(jobs)

    async def submit_many_async(self, jobs: Sequence[NewJob] | SameKindJobs) -> list[Enqueued]:
        """``submit_many`` without blocking the event loop."""
        effects = self.store.db.open_effects
        if effects is not None and effects.all:
            effects.refuse(blocks=False)
        loop = asyncio.get_running_loop()
        if isinstance(jobs, SameKindJobs):  # validators are the application's: they run where it called
            return await loop.run_in_executor(self._pool(), self.store.enqueue_alike, jobs.encoded())
        return await loop.run_in_executor(self._pool(), self.store.enqueue, jobs)

    def submit_group(self, entries: Sequence[CheckedJob]) -> list[Enqueued]:
        """Store the jobs of a batch or a chain, all or none."""
        return self.store.enqueuer.enqueue_group(entries)

    async def submit_group_async(self, entries: Sequence[CheckedJob]) -> list[Enqueued]:
        """``submit_group`` without blocking the event loop."""
        effects = self.store.db.open_effects
        if effects is not None and effects.all:
            effects.refuse(blocks=False)
        return await asyncio.get_running_loop().run_in_executor(self._pool(), self.submit_group, entries)

    def close(self) -> None:
        if self._waiter is not None:
            self._waiter.close()
        if self._writer is not None:
            self._writer.close()
        if self._others is not None:
            self._others.shutdown()

    # ------------------------------------------------------------------ leading

    def _write_one_batch(self) -> None:
        """Write for all that wait, then hand over to one of those that came meanwhile."""
        batch: list[_Request] = []
        try:
            with self._lock:  # as in _take, which a plain enqueue need not call
                batch += self._waiting[:MOST]
                del self._waiting[:MOST]
            self._write(batch)
        except BaseException as error:
            _despite_interrupts(partial(self._settle, batch, error))
            raise
        with self._lock:
            if not self._waiting:
                self._leader = None
                return
        self._hand_over()

    def _write_all(self, request: _Request) -> None:
        """Write batch after batch until no request waits; run by the thread of an event loop's leader."""
        while (
            self._leader is request
        ):  # not so where the thread started late, after its request had been given up
            batch: list[_Request] = []
            try:
                self._take(batch)
                self._write(batch)
            except BaseException as error:
                _despite_interrupts(partial(self._settle, batch, error))
                _despite_interrupts(self._hand_over)
                raise
            with self._lock:
                if not self._waiting:
                    self._leader = None

    def _take(self, batch: list[_Request]) -> None:
        with self._lock:
            batch += self._waiting[:MOST]
            del self._waiting[:MOST]

    def _leave(self, request: _Request) -> None:
        """Drop a request whose caller is gone. If it is being written, its job may be stored."""
        with self._lock:
            if request in self._waiting:
                self._waiting.remove(request)
            if self._leader is request:
                self._leader = self._waiting[0] if self._waiting else None
        self._wake_leader()  # also another one: the caller may have gone between handing over and saying so

    def _hand_over(self) -> None:
        """Give the lead to the first in line."""
        with self._lock:
            self._leader = self._waiting[0] if self._waiting else None
        self._wake_leader()

    def _wake_leader(self) -> None:
        """Wake the leader; a leader that is running already is not disturbed. If no thread can be started for it, its caller gets the error, and the next in
        line leads."""
        while (leader := self._leader) is not None:
            if leader.future is None:
                if leader.done is not None:
                    leader.done.set()
                return
            try:
                self._start(leader)
                return
            except RuntimeError as error:
                with self._lock:
                    if self._leader is not leader or leader not in self._waiting:
                        return
                    self._waiting.remove(leader)
                    self._leader = self._waiting[0] if self._waiting else None
                leader.error = error
                self._settle([leader])

    def _start(self, request: _Request) -> None:
        with self._lock:
            if self._writer is None:
                self._writer = _WriterThread(self._write_all)
        self._writer.write_for(request)

    def _write(self, batch: Sequence[_Request]) -> None:
        """Store the jobs of a batch. What is no error of Windlass's is none of theirs, either: it is raised, as a signal handler did."""
        try:
            for request, enqueued in zip(
                batch, self.store.enqueue_checked([item.job for item in batch]), strict=True
            ):
                request.enqueued = enqueued
        except EnqueueUnknownError as error:
            for request, job_id in zip(batch, error.ids, strict=True):  # each with its own id
                request.error = EnqueueUnknownError([job_id], error.why)
                request.error.__cause__ = error
        except FAULTS_OF_THE_STORE as error:  # no job is to blame: one by one they would be refused as well
            for request in batch:
                request.error = error
        except (
            WindlassError
        ) as error:  # refused as a whole, so nothing is stored: find out whose fault it was
            if len(batch) > 1:
                self._write_apart(batch)
            else:
                batch[0].error = error
        self._settle(batch)

    def _write_apart(self, batch: Sequence[_Request]) -> None:
        """Store the jobs of a batch one by one, up to the first that the database itself fails: to wait for it again for each of the others
        would take hours. Each caller gets its result as soon as its job is decided."""
        for place, request in enumerate(batch):
            try:
                request.enqueued = self.store.enqueue_checked([request.job])[0]
            except FAULTS_OF_THE_STORE as fault:
                request.error = left = fault
                if isinstance(
                    fault, EnqueueUnknownError
                ):  # it knows of the job that was sent, and of no other
                    left = StoreUnreachableError(NOT_SENT, is_unsent=True)
                    left.__cause__ = fault
                for other in batch[place + 1 :]:
                    other.error = left
                return
            except WindlassError as own:
                request.error = own
            self._settle([request])

    def _settle(self, batch: Sequence[_Request], cause: BaseException | None = None) -> None:
        loops: dict[asyncio.AbstractEventLoop, list[_Request]] = defaultdict(list)
        for request in batch:
            if request.enqueued is None and request.error is None:
                request.error = StoreUnreachableError(INTERRUPTED)
                request.error.__cause__ = cause
            if request.done is not None:
                request.done.set()
            elif request.future is not None:
                loops[request.future.get_loop()].append(request)
        for loop, requests in loops.items():
            with suppress(RuntimeError):  # the loop is closed: no caller waits there
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
            elif request.enqueued is not None:
                request.future.set_result(request.enqueued)


def _despite_interrupts(work: Callable[[], None]) -> None:
    """Do what others wait for, also where one more signal comes meanwhile; ``work`` may be begun again."""
    interrupt: BaseException | None = None
    for _ in range(10):
        try:
            work()
            break
        except BaseException as error:  # noqa: BLE001  raised below
            interrupt = error
    if interrupt is not None:
        try:
            raise interrupt
        finally:
            interrupt = None  # else the error and this frame would keep each other
