"""Stores, submitters and apps in a forked child: they open themselves again, and the parent's connections stay the parent's."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.engine.forked import Child
from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass import forking
from windlass.engine.one_job import OneJobRunner, Status
from windlass.errors import StoreError
from windlass.model import NewJob, State

pytestmark = [pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"), pytest.mark.timing]


@contextmanager
def busy(shop: Shop) -> Iterator[Callable[[], object]]:
    """The database takes no job until it is released, by a call or by the end of the block."""
    if shop.store.db.dialect == "sqlite":
        other = sqlite3.connect(shop.app.url.removeprefix("sqlite:///"), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        yield lambda: other.execute("ROLLBACK")
        other.close()
        return
    with psycopg.connect(shop.app.url) as session:
        session.execute("LOCK TABLE windlass.job IN ACCESS EXCLUSIVE MODE")
        yield session.rollback


def test_an_app_that_used_its_store_before_the_fork_works_in_parent_and_children(shop: Shop) -> None:
    @shop.app.job
    def work(n: int) -> None: ...

    work.enqueue(n=0)
    asyncio.run(work.enqueue_async(n=0))
    shop.store.jobs.list()

    def child() -> None:
        assert work.enqueue(n=1).created
        assert asyncio.run(work.enqueue_async(n=2)).created
        assert len(work.enqueue_many([{"n": n} for n in range(600)])) == 600
        with shop.store.db.effect(5) as tx:
            shop.store.enqueuer.enqueue_in(tx, [NewJob(kind="work", args={"n": 3})])
        assert shop.store.phases.counts()["work"].queued >= 600
        assert Child(lambda: work.enqueue(n=4)).code == 0  # a child of the child
        shop.app.close()

    for _ in range(2):
        assert Child(child).code == 0
        assert work.enqueue(n=5).created  # the parent's connections are as they were
        assert asyncio.run(work.enqueue_async(n=6)).created
        assert shop.store.jobs.list().jobs
    shop.drained(shop.serve())
    assert shop.store.phases.counts()["work"].completed == 2 + 2 * (1 + 1 + 600 + 1 + 1 + 2)


@pytest.mark.slow
def test_a_fork_while_another_thread_leads(shop: Shop) -> None:
    """The child had the parent's leader, whom it waited for for ever."""

    @shop.app.job
    def work() -> None: ...

    made = [work.enqueue().id]

    def child() -> None:
        if shop.store.db.dialect != "sqlite":
            assert work.enqueue().created and asyncio.run(work.enqueue_async()).created
            return
        # SQLite would take the locks of the transaction that is open in the parent for the child's own.
        for use in (work.enqueue, shop.store.jobs.list, lambda: asyncio.run(work.enqueue_async())):
            with pytest.raises(StoreError, match="forked while a transaction was open"):
                use()
        assert Child(lambda: _refused(work.enqueue)).code == 0

    with busy(shop) as release:
        leader = threading.Thread(target=lambda: made.append(work.enqueue().id), daemon=True)
        leader.start()
        shop.until(lambda: shop.app.parts.submitter._leader and not shop.app.parts.submitter._waiting)
        shop.until(lambda: shop.store.db.dialect != "sqlite" or _is_taken(shop))
        one = Child(child)
        release()
        assert one.code == 0
        leader.join(PATIENCE)
    assert len(made) == 2 and work.enqueue().created


def _refused(use: Callable[[], object]) -> None:
    with pytest.raises(StoreError):
        use()


def _is_taken(shop: Shop) -> bool:
    """Whether another thread of this process has the turn to write."""
    turn = shop.store.db._connections._turn  # type: ignore[attr-defined]
    if turn.acquire(blocking=False):
        turn.release()
        return False
    return True


def test_a_child_cannot_speak_on_a_connection_of_its_parent(shop: Shop) -> None:
    """It has a copy of an open transaction, and what it says there would be said by its parent."""
    with shop.store.db.effect(30) as tx:
        tx.connection.execute("CREATE TABLE note (n integer)")
        tx.connection.execute("INSERT INTO note VALUES (1)")

        def child() -> None:
            if shop.store.db.dialect == "sqlite":
                return  # the file's connection is in the process: nobody can take it away
            with pytest.raises(psycopg.OperationalError):
                tx.connection.execute("INSERT INTO note VALUES (2)")

        assert Child(child).code == 0
        tx.connection.execute("INSERT INTO note VALUES (3)")
    assert sorted(shop.run("SELECT n FROM note")) == [(1,), (3,)]


def test_a_child_that_leaves_a_transaction_of_its_parent_ends_nothing(shop: Shop) -> None:
    pids: list[Child] = []

    def both() -> None:
        with shop.store.db.effect(30) as tx:
            tx.connection.execute("CREATE TABLE note (n integer)")
            parent = os.getpid()
            pids.append(Child.__new__(Child))
            pids[0]._pid = os.fork()
            if os.getpid() == parent:
                assert pids[0].code == 7
                tx.connection.execute("INSERT INTO note VALUES (1)")

    try:
        both()
    except BaseException:
        if not pids[0]._pid:
            os._exit(7)
        raise
    finally:
        if pids and not pids[0]._pid:
            os._exit(8)
    assert shop.run("SELECT n FROM note") == [(1,)]


@pytest.mark.slow
def test_a_fork_waits_for_those_who_write_and_read(shop: Shop) -> None:
    """Beside threads that enqueue, read, listen and have transactions all the time, and threads that begin to read, each child has a
    working store."""

    @shop.app.job
    def work() -> None: ...

    work.enqueue()
    is_over = threading.Event()
    errors: list[BaseException] = []

    def again_and_again(use: Callable[[], object]) -> None:
        try:
            while not is_over.is_set():
                use()
        except BaseException as error:  # noqa: BLE001  shown below
            errors.append(error)

    def read_in_a_new_thread() -> None:
        thread = threading.Thread(target=shop.store.phases.counts)
        thread.start()
        thread.join()

    def have_a_transaction() -> None:
        with shop.store.db.effect(PATIENCE):
            is_over.wait(0.01)

    listener = shop.store.listen()
    uses = [
        work.enqueue,
        work.enqueue,
        shop.store.jobs.list,
        lambda: listener.wait(0.05),
        read_in_a_new_thread,
        have_a_transaction,
    ]
    threads = [threading.Thread(target=again_and_again, args=(use,), daemon=True) for use in uses]
    for thread in threads:
        thread.start()
    codes = [Child(work.enqueue).code for _ in range(15)]
    is_over.set()
    for thread in threads:
        thread.join(PATIENCE)
    listener.close()
    assert codes == [0] * 15 and not errors


def test_a_listener_that_was_there_before_the_fork_hears_in_the_child(shop: Shop) -> None:
    if shop.store.db.dialect != "sqlite":
        pytest.skip("a connection of the parent leads nowhere in the child")

    @shop.app.job
    def work() -> None: ...

    listener = shop.store.listen()
    while listener.wait(0.05):
        pass

    def child() -> None:
        work.enqueue()
        assert listener.wait(PATIENCE)

    assert Child(child).code == 0
    listener.close()


def test_everything_is_told_of_a_fork_though_something_fails() -> None:
    class Thing:
        def __init__(self, *, is_bad: bool = False) -> None:
            self.is_bad = is_bad
            self.told: list[str] = []
            forking.watch(self)

        def _note(self, what: str) -> None:
            self.told.append(what)
            if self.is_bad:
                raise OSError(24, "Too many open files")

        def before_fork(self) -> None:
            self._note("before")

        def after_fork_in_child(self) -> None:
            self._note("child")

        def after_fork_in_parent(self) -> None:
            self._note("parent")

    things = [Thing(is_bad=number % 3 == 0) for number in range(12)]

    def child() -> None:
        assert all(thing.told == ["before", "child"] for thing in things)

    with warnings_of_hooks():
        assert Child(child).code == 0
    assert all(thing.told == ["before", "parent"] for thing in things)
    for thing in things:
        thing.is_bad = False  # whatever keeps them: later forks are none of theirs


@contextmanager
def warnings_of_hooks() -> Iterator[None]:
    """Python shows what a hook of a fork raises, and goes on."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    yield
    sys.unraisablehook = before


def test_forks_of_two_threads_take_turns(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    work.enqueue()
    codes: list[int] = []

    def fork() -> None:
        codes.extend(Child(work.enqueue).code for _ in range(10))

    threads = [threading.Thread(target=fork) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert codes == [0] * 30
    assert shop.store.phases.counts()["work"].queued == 31


def test_what_was_made_before_a_fork_runs_jobs_after_it(shop: Shop) -> None:
    """An application that is loaded before its server forks: the child's jobs are not those of another process."""

    @shop.app.job
    def work() -> int:
        return 1

    asked, queued = work.enqueue(), work.enqueue()
    requests = OneJobRunner(shop.store, shop.app.parts.registry, settings=shop.app.settings)
    engine = shop.app.worker()

    def run() -> None:
        assert requests.process(asked.id).status is Status.COMPLETED
        engine.start()
        shop.until(lambda: shop.job(queued).state is State.COMPLETED)
        engine.stop()

    assert Child(run).code == 0
    assert {shop.job(job).state for job in (asked, queued)} == {State.COMPLETED}
