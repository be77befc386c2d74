"""Callers that are interrupted while they submit: by a time-out of their own, by Ctrl-C, by the end of the process. Others go on."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from queue import Empty
from types import FrameType
from typing import Any

import pytest

from tests.engine.shop import Shop
from windlass.errors import StoreUnreachableError
from windlass.features import Store
from windlass.model import Enqueued, NewJob
from windlass.store.sqlite.connections import Wakeups
from windlass.submit import submitter as submit
from windlass.submit.submitter import Submitter, _Latch

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
JOIN = 30.0


class Slow(Exception):  # noqa: N818  what an application's own time-out raises
    pass


class Ctrl(BaseException):
    """Ctrl-C: unlike a time-out it passes through whatever handles exceptions."""


class Gated:
    """The store behind a gate. Whoever has come to it is in ``came``."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.db = store.db
        self.came: list[int] = []
        self.gate = threading.Event()

    def enqueue_checked(self, jobs: Any) -> list[Enqueued]:
        self.came.append(len(jobs))
        assert self.gate.wait(JOIN)
        return self.store.enqueue_checked(jobs)


@contextmanager
def alarm(error: type[BaseException] = Slow) -> Iterator[Callable[[float], object]]:
    """``set(seconds)``: raise an error in the main thread then, as ``signal.alarm`` in an application would."""

    def ring(*_: object) -> None:
        raise error

    limit, _ = signal.getitimer(signal.ITIMER_REAL)  # the test's own
    before = signal.signal(signal.SIGALRM, ring)
    try:
        yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, limit)


class Crowd:
    """Threads that submit, and what came of it."""

    def __init__(self, submitter: Submitter) -> None:
        self.submitter = submitter
        self.ids: list[str] = []
        self.errors: list[Exception] = []
        self._threads: list[threading.Thread] = []

    def add(self, count: int = 1) -> None:
        for _ in range(count):
            self._threads.append(threading.Thread(target=self._submit, daemon=True))
            self._threads[-1].start()

    def _submit(self) -> None:
        try:
            self.ids.append(self.submitter.submit(NewJob(kind="k")).id)
        except Exception as error:  # noqa: BLE001  looked at by the test
            self.errors.append(error)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(JOIN)
        assert not any(thread.is_alive() for thread in self._threads), "somebody still waits"


@pytest.fixture
def gated(shop: Shop) -> Gated:
    return Gated(shop.store)


@pytest.fixture
def submitter(gated: Gated) -> Iterator[Submitter]:
    made = Submitter(gated)  # type: ignore[arg-type]
    yield made
    gated.gate.set()
    made.close()


@pytest.fixture
def crowd(submitter: Submitter) -> Crowd:
    return Crowd(submitter)


def others_go_on(shop: Shop, crowd: Crowd, gated: Gated) -> None:
    gated.gate.set()
    crowd.add(3)
    crowd.join()
    assert not crowd.errors
    assert all(shop.job(job).kind == "k" for job in crowd.ids)


def test_a_caller_that_is_interrupted_while_it_waits(shop: Shop, gated: Gated, crowd: Crowd) -> None:
    crowd.add()
    shop.until(lambda: gated.came)
    with alarm() as ring_in, pytest.raises(Slow):
        ring_in(0.2)
        crowd.submitter.submit(NewJob(kind="k"))
    assert not crowd.submitter._waiting
    others_go_on(shop, crowd, gated)
    assert len(crowd.ids) == 4 == shop.store.phases.counts()["k"].queued


@pytest.mark.parametrize("moment", ["in line", "leader", "answered"])
@pytest.mark.parametrize("behind", [0, 2])
def test_a_wait_may_be_left_at_every_moment(
    shop: Shop, gated: Gated, crowd: Crowd, monkeypatch: pytest.MonkeyPatch, moment: str, behind: int
) -> None:
    """In line; with the lead handed over, and not yet taken up; and with the answer there, and not yet read."""
    waits = threading.Event()

    class Leaving(_Latch):
        def wait(self) -> None:
            waits.set()
            if moment != "in line":
                super().wait()
            raise Slow

    crowd.add()
    shop.until(lambda: gated.came)
    if moment == "answered":  # it goes with the batch of the next leader
        crowd.add()
        shop.until(lambda: len(crowd.submitter._waiting) == 1)
    with monkeypatch.context() as patch:
        patch.setattr("windlass.submit.submitter._Latch", Leaving)
        one = ThreadPoolExecutor(1)
        left = one.submit(crowd.submitter.submit, NewJob(kind="k"))
        assert waits.wait(JOIN)
    crowd.add(behind)
    shop.until(lambda: len(crowd.submitter._waiting) >= behind)
    gated.gate.set()
    with pytest.raises(Slow):
        left.result(JOIN)
    one.shutdown()
    others_go_on(shop, crowd, gated)
    assert crowd.submitter._leader is None and not crowd.submitter._waiting


def test_a_leader_that_is_interrupted_leaves_nobody_waiting(shop: Shop, gated: Gated, crowd: Crowd) -> None:
    """Whether what it wrote for others is stored is unknown, and they are told so."""
    main = threading.main_thread()
    assert threading.current_thread() is main
    with alarm() as ring_in, pytest.raises(Slow):
        ring_in(0.3)
        crowd.submitter.submit(NewJob(kind="k"))  # alone at first: it leads, and stands at the gate
    assert gated.came == [1]

    class Following(Gated):
        """Lets the first pass when main and the others are in line; then main leads."""

        def enqueue_checked(self, jobs: Any) -> list[Enqueued]:
            self.came.append(len(jobs))
            if len(jobs) == 1:
                assert self.gate.wait(JOIN)
            elif threading.current_thread() is main:
                ring(0.1)
                threading.Event().wait(JOIN)
            return self.store.enqueue_checked(jobs)

    following = Following(shop.store)
    crowd = Crowd(Submitter(following))  # type: ignore[arg-type]
    crowd.add()
    shop.until(lambda: following.came == [1])

    def behind_main() -> None:
        shop.until(lambda: len(crowd.submitter._waiting) == 1)
        crowd.add(3)
        shop.until(lambda: len(crowd.submitter._waiting) == 4)
        following.gate.set()

    helper = threading.Thread(target=behind_main)
    helper.start()
    with alarm() as ring, pytest.raises(Slow):
        crowd.submitter.submit(NewJob(kind="k"))
    helper.join(JOIN)
    crowd.join()
    assert following.came[:2] == [1, 4] and len(crowd.ids) == 1
    assert [type(error) for error in crowd.errors] == [StoreUnreachableError] * 3
    assert "unknown" in str(crowd.errors[0])
    crowd.errors.clear()
    others_go_on(shop, crowd, following)


def test_a_signal_in_the_midst_of_waking_somebody_leaves_nothing_locked() -> None:
    """An Event has a lock of its own. An exception of a signal handler between taking and using that lock left it taken: the next one who
    set the event, this very thread in its second try, waited for ever."""
    latch, calls = _Latch(), 0

    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        nonlocal calls
        if frame.f_code.co_filename not in (submit.__file__, threading.__file__):
            return None
        calls += 1
        if calls == moment:
            raise Slow
        return interrupt

    for moment in range(1, 40):
        calls, latch = 0, _Latch()
        sys.settrace(interrupt)
        with suppress(Slow):
            latch.set()
        sys.settrace(None)
        latch.set()
        waiter = threading.Thread(target=latch.wait, daemon=True)
        waiter.start()
        waiter.join(JOIN)
        assert not waiter.is_alive(), moment


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_signals_at_any_time_hang_nobody(shop: Shop) -> None:
    """A hundred signals for the main thread, wherever it is, beside three threads that submit all the time. All errors are kept, as
    error reporters do: an error that kept a lock would hang the others."""

    @shop.app.job
    def work(n: int) -> None: ...

    work.enqueue(n=0)
    is_over = threading.Event()
    made: list[str] = []
    errors: list[Exception] = []
    interrupts: list[BaseException] = []

    def enqueue() -> None:
        while not is_over.is_set():
            try:
                made.append(work.enqueue(n=1).id)
            except StoreUnreachableError as error:
                errors.append(error)

    def enqueue_until_it_rings(n: int) -> None:
        # A function of its own: in Python 3.13 an exception of a signal at the jump back to a loop's test passes by the handlers of the same
        # function. And not without end: an exception in a finalizer is shown by Python, and goes no further.
        until = time.monotonic() + 5
        while time.monotonic() < until:
            work.enqueue(n=n)

    threads = [threading.Thread(target=enqueue, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        with alarm(Ctrl) as ring_in:
            for n in range(100):
                try:
                    ring_in(0.001 + (n % 37) * 0.0002)
                    enqueue_until_it_rings(n)
                except (Ctrl, StoreUnreachableError) as error:
                    interrupts.append(error)
                except UnboundLocalError as error:
                    # psycopg_pool counts the time of a call in a `finally`, and the signal came before it had noted the beginning.
                    if not isinstance(error.__context__, Ctrl):
                        raise
                    interrupts.append(error)
        seen = len(made)
        shop.until(lambda: len(made) > seen + 30)
    finally:
        is_over.set()
    for thread in threads:
        thread.join(JOIN)
    assert not any(thread.is_alive() for thread in threads)
    assert all("unknown" in str(error) for error in errors)
    assert all(shop.job(job).kind == "work" for job in made[::50])


def test_a_signal_while_a_commit_is_told_leaves_nothing_locked() -> None:
    """Callers tell the listeners of each commit on SQLite; the exception of a signal may come at any of its instructions."""
    wakeups = Wakeups()
    told = wakeups.add()

    def tell() -> None:
        # A function of its own: in Python 3.13 an exception of a signal at the jump back to a loop's test after an inner `with` passes by
        # the handlers of the same function.
        until = time.monotonic() + 5
        while time.monotonic() < until:
            wakeups.notify()
            with suppress(Empty):
                told.get_nowait()

    with alarm(Ctrl) as ring_in:
        for n in range(300):
            with suppress(Ctrl):
                ring_in(0.0002 + (n % 7) * 0.00005)
                tell()
    other = threading.Thread(target=wakeups.notify, daemon=True)
    other.start()
    other.join(JOIN)
    assert not other.is_alive()


@pytest.mark.parametrize("why", ["no thread", "closed"])
def test_a_coroutine_whose_thread_cannot_start(
    shop: Shop, gated: Gated, crowd: Crowd, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """It is told; the thread that could not start has not taken the lead with it."""
    gated.gate.set()
    if why == "closed":
        asyncio.run(crowd.submitter.submit_async(NewJob(kind="k")))
        crowd.submitter.close()
    with monkeypatch.context() as patch:
        if why == "no thread":
            patch.setattr(threading.Thread, "start", _cannot_start)
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"start new thread|after shutdown"):
                asyncio.run(crowd.submitter.submit_async(NewJob(kind="k")))
    others_go_on(shop, crowd, gated)
    if why == "no thread":
        assert asyncio.run(crowd.submitter.submit_async(NewJob(kind="k"))).created
    shop.until(lambda: crowd.submitter._leader is None)


def test_a_lead_that_no_coroutine_can_take_goes_to_the_next_thread(
    shop: Shop, gated: Gated, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd.add()
    shop.until(lambda: gated.came)

    async def behind() -> None:
        waiting = asyncio.create_task(crowd.submitter.submit_async(NewJob(kind="k")))
        await asyncio.sleep(0)
        crowd.add()
        shop.until(lambda: len(crowd.submitter._waiting) == 2)
        monkeypatch.setattr(threading.Thread, "start", _cannot_start)
        gated.gate.set()
        with pytest.raises(RuntimeError, match="start new thread"):
            await asyncio.wait_for(waiting, JOIN)

    asyncio.run(behind())
    monkeypatch.undo()
    crowd.join()
    assert len(crowd.ids) == 2


def _cannot_start(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
