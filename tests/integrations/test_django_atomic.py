"""``enqueue`` inside ``transaction.atomic()``: warned of, refused, or stored with the commit; never in a TestCase's own block."""

from __future__ import annotations

import asyncio
import logging
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction
from django.test import TestCase, override_settings
from django.test.utils import setup_test_environment, teardown_test_environment

from tests.servers.plugin import FreshPostgres
from tests.transactions.django_project import connected
from windlass import Context, Key, NewJob
from windlass.app.kinds import JobKind
from windlass.errors import EnqueueInAtomicError
from windlass.features import open_store
from windlass.integrations.django.project import DjangoApp
from windlass.model import JobFilter
from windlass.testing import Sandbox

Kind = JobKind[..., Any, ..., Any]


class Site:
    """A Django app on a database of the project, and another database beside it."""

    def __init__(self, app: DjangoApp, connection: Any, other: str) -> None:
        self.app = app
        self.connection = connection
        self.other = other

        @app.job
        def confirm(order: int) -> int:
            return order

        self.confirm: Kind = confirm

    @property
    def here(self) -> str:
        return str(self.connection.alias)

    def stored(self) -> list[int]:
        """The orders of all jobs that other connections see."""
        return sorted(job.args["order"] for job in self.app.store.jobs.list(JobFilter(kind="confirm")).jobs)


@pytest.fixture(params=["sqlite", "postgresql"])
def site(
    request: pytest.FixtureRequest, fresh_postgres: FreshPostgres, sqlite_path: Path, tmp_path: Path
) -> Iterator[Callable[..., Site]]:
    """Makes the site with a value of the setting."""
    url = f"sqlite:///{sqlite_path}" if request.param == "sqlite" else fresh_postgres()
    with (
        open_store(url),  # makes the tables
        connected(f"sqlite:///{tmp_path / 'other.db'}", "other"),
        connected(url, "shop") as connection,
    ):
        made: list[DjangoApp] = []

        def make(mode: str | None = None, **more: Any) -> Site:
            config = {} if mode is None else {"django.enqueue_in_atomic": mode}
            with override_settings(WINDLASS={"DATABASE": "shop", "CONFIG": config, **more}):
                made.append(DjangoApp())
            return Site(made[-1], connection, "other")

        yield make
        for app in made:
            app.close()


@contextmanager
def lines() -> Iterator[list[logging.LogRecord]]:
    """The warnings of enqueues inside atomic blocks."""
    found: list[logging.LogRecord] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if getattr(record, "event", "") == "enqueue.in_atomic":
                found.append(record)

    handler = Handler()
    logger = logging.getLogger("windlass.engine")
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)


def test_by_default_it_warns_once_for_each_kind(site: Callable[..., Site]) -> None:
    shop = site()
    with lines() as found:
        shop.confirm.enqueue(1)
        with transaction.atomic(using=shop.here):
            shop.confirm.enqueue(2)
            shop.confirm.enqueue(3)
            assert shop.stored() == [1, 2, 3], "stored at once, as before"
    assert [(record.kind, record.database) for record in found] == [("confirm", "shop")]  # type: ignore[attr-defined]
    assert "enqueue_in(connection, ...)" in found[0].getMessage()


def test_enqueue_in_is_right_and_so_is_on_commit(site: Callable[..., Site]) -> None:
    shop = site("error")
    with lines() as found:
        with transaction.atomic(using=shop.here):
            shop.confirm.enqueue_in(shop.connection, 1)
            transaction.on_commit(lambda: shop.confirm.enqueue(2), using=shop.here)
        asyncio.run(shop.confirm.enqueue_async(3))
    assert shop.stored() == [1, 2, 3] and not found


def test_allowed_it_says_nothing(site: Callable[..., Site]) -> None:
    shop = site("allow")
    with lines() as found, transaction.atomic(using=shop.here):
        shop.confirm.enqueue(1)
        assert shop.stored() == [1]
    assert not found


def test_as_an_error_nothing_is_stored(site: Callable[..., Site]) -> None:
    shop = site("error")
    for database in (shop.here, shop.other):
        with transaction.atomic(using=database):
            with pytest.raises(EnqueueInAtomicError, match=f"confirm .* of the database '{database}'"):
                shop.confirm.enqueue(1)
            with pytest.raises(EnqueueInAtomicError):
                shop.confirm.enqueue_many([{"order": 2}, {"order": 3}])
            with pytest.raises(EnqueueInAtomicError):
                shop.app.chain(shop.confirm.request(4), shop.confirm.request(5))
            with pytest.raises(EnqueueInAtomicError):
                shop.app.batch([shop.confirm.request(6)], then=shop.confirm.request(7))
    assert shop.stored() == []


@pytest.mark.parametrize("database", ["here", "other"])
def test_deferred_it_is_stored_by_the_commit_and_never_by_a_rollback(
    site: Callable[..., Site], database: str
) -> None:
    shop = site("defer")
    block = transaction.atomic(using=getattr(shop, database))
    with block:
        handles = [shop.confirm.enqueue(1), *shop.confirm.enqueue_many([{"order": 2}, {"order": 3}])]
        chain = shop.app.chain(shop.confirm.request(4), shop.confirm.request(5))
        with pytest.raises(ZeroDivisionError), transaction.atomic(using=getattr(shop, database)):
            shop.confirm.enqueue(6)
            raise ZeroDivisionError  # the inner block alone is rolled back
        assert shop.stored() == [], "no other connection sees them yet"
    assert shop.stored() == [1, 2, 3, 4, 5]
    assert [handle.job().args["order"] for handle in [*handles, *chain.jobs]] == [1, 2, 3, 4, 5]
    assert all(handle.created for handle in handles)
    with pytest.raises(ZeroDivisionError), block:
        shop.confirm.enqueue(7)
        raise ZeroDivisionError
    assert shop.stored() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("is_outer", [False, True])
def test_deferred_without_a_block_of_the_jobs_it_waits_for_all(
    site: Callable[..., Site], is_outer: bool
) -> None:
    shop = site("defer", URL=site().app.url)  # jobs have a URL of their own: no block is theirs
    outer, inner = (shop.here, shop.other) if is_outer else (shop.other, shop.here)
    with transaction.atomic(using=outer):
        with transaction.atomic(using=inner):
            shop.confirm.enqueue(1)
        assert shop.stored() == [], "the outer block may still be rolled back"
    assert shop.stored() == [1]


def test_deferred_it_follows_the_block_of_the_jobs(site: Callable[..., Site]) -> None:
    shop = site("defer")
    with transaction.atomic(using=shop.other):
        with pytest.raises(ZeroDivisionError), transaction.atomic(using=shop.here):
            shop.confirm.enqueue(1)
            raise ZeroDivisionError
        with transaction.atomic(using=shop.here):
            shop.confirm.enqueue(2)
        assert shop.stored() == [2]
    assert shop.stored() == [2]


def test_deferred_a_key_works_in_the_block_of_the_jobs_only(site: Callable[..., Site]) -> None:
    shop = site("defer")
    once = shop.confirm.options(key=Key("k"))
    with transaction.atomic(using=shop.here):
        first, second = once.enqueue(1), once.enqueue(1)
        assert first.created and not second.created and first.id == second.id
    with (
        transaction.atomic(using=shop.other),
        pytest.raises(EnqueueInAtomicError, match="might find another job"),
    ):
        once.enqueue(1)
    assert shop.stored() == [1]


def test_an_async_enqueue_finds_the_block_of_its_thread(site: Callable[..., Site]) -> None:
    """A view calls async code inside its block; and the other way round, a block is open across awaits."""
    shop, strict = site("defer"), site("error")

    async def notify() -> None:
        await shop.confirm.enqueue_async(1)
        await shop.confirm.enqueue_many_async([{"order": 2}])
        await shop.app.chain_async(shop.confirm.request(3))
        with pytest.raises(EnqueueInAtomicError):
            await strict.confirm.enqueue_async(9)

    with transaction.atomic(using=shop.here):
        async_to_sync(notify)()
        assert shop.stored() == []
    assert shop.stored() == [1, 2, 3]

    def forget() -> None:
        connections[shop.here].close()
        del connections[shop.here]  # of this thread, which later tests use

    async def view() -> None:
        block = transaction.atomic(using=shop.here)
        await sync_to_async(block.__enter__)()
        try:
            await shop.confirm.enqueue_async(4)
        finally:
            await sync_to_async(block.__exit__)(None, None, None)
            await sync_to_async(forget)()

    asyncio.run(view())
    assert shop.stored() == [1, 2, 3, 4]


def test_blocks_of_a_test_case_do_not_count(site: Callable[..., Site]) -> None:
    shop = site("error")

    class OrderTest(TestCase):  # type: ignore[misc]  # Django has no types
        databases = {shop.here}  # noqa: RUF012  as Django has it

        def test_a_view(self) -> None:
            assert shop.connection.in_atomic_block
            assert shop.confirm.enqueue(1).created
            with transaction.atomic(using=shop.here), pytest.raises(EnqueueInAtomicError):
                shop.confirm.enqueue(2)

        async def test_an_async_view(self) -> None:
            assert (await shop.confirm.enqueue_async(3)).created

    result = unittest.TestResult()
    setup_test_environment()  # as the test runner does
    try:
        unittest.defaultTestLoader.loadTestsFromTestCase(OrderTest).run(result)
    finally:
        teardown_test_environment()
    assert result.testsRun == 2 and result.wasSuccessful(), result.errors + result.failures
    assert shop.stored() == [], "jobs of a test are rolled back with it"


# ------------------------------------------------------------------------------------------ SQLite's one write lock


def write(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE orders (id integer)")


@pytest.mark.parametrize("mode", ["warn", "allow"])
@pytest.mark.parametrize("is_opened", [False, True])
def test_a_block_that_holds_the_write_lock_of_the_jobs_is_refused_at_once(
    site: Callable[..., Site], mode: str, is_opened: bool, sqlite_path: Path
) -> None:
    """The block cannot end while ``enqueue`` waits for its lock. On PostgreSQL there is no such lock."""
    shop = site(mode)
    if is_opened:
        assert shop.stored() == []
    is_sqlite = shop.connection.vendor == "sqlite"
    with transaction.atomic(using=shop.here):
        write(shop.connection)
        if not is_sqlite:
            shop.confirm.enqueue(1)
        else:
            with pytest.raises(EnqueueInAtomicError) as raised:
                shop.confirm.enqueue(2)
            said = str(raised.value)
            assert f"this thread's own transaction holds the only write lock of {sqlite_path}" in said
            assert all(cure in said for cure in ("enqueue_in(", "transaction.on_commit", "'defer'"))
            with pytest.raises(EnqueueInAtomicError):
                shop.confirm.enqueue_many([{"order": 2}])
            with pytest.raises(EnqueueInAtomicError):
                async_to_sync(shop.confirm.enqueue_async)(2)
            shop.confirm.enqueue_in(shop.connection, 1)
    assert shop.stored() == [1]


def test_a_block_that_has_only_read_is_not_refused(site: Callable[..., Site]) -> None:
    """Nor is one that writes to another database, or whose file another thread writes to."""
    shop = site("allow")
    with transaction.atomic(using=shop.here), transaction.atomic(using=shop.other):
        write(connections[shop.other])
        with shop.connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM windlass_job" if shop.connection.vendor == "sqlite" else "SELECT 1")
            cursor.fetchall()
        shop.confirm.enqueue(1)
    assert shop.stored() == [1]


def test_a_block_begun_to_write_holds_the_lock_and_so_does_one_of_another_name(
    site: Callable[..., Site], sqlite_path: Path
) -> None:
    """``transaction_mode`` IMMEDIATE, as the guide has it; and a second entry of DATABASES for the same file."""
    shop = site("warn", URL=site().app.url)  # no connection of Django's is that of the jobs
    if shop.connection.vendor != "sqlite":
        return
    with connected(f"sqlite:///{sqlite_path}", "again") as again:
        again.ensure_connection()
        again.connection.execute("BEGIN IMMEDIATE")
        again.in_atomic_block, again.atomic_blocks = True, [transaction.atomic(using="again")]
        with pytest.raises(EnqueueInAtomicError, match=r"database 'again'.*own transaction holds"):
            shop.confirm.enqueue(1)
        again.in_atomic_block, again.atomic_blocks = False, []
        again.connection.execute("ROLLBACK")
    assert shop.stored() == []


# -------------------------------------------------------------------------------------------------------- in handlers


SEEN = {"warn": [1], "error": "refused", "defer": []}
"""What other connections see inside the block."""


@pytest.mark.parametrize("mode", SEEN)
def test_in_a_handler_the_context_follows_the_same_rule(site: Callable[..., Site], mode: str) -> None:
    """``ctx.enqueue`` commits at once, like ``kind.enqueue``, and not with the end of the job."""
    shop = site(mode)
    seen: list[Any] = []

    @shop.app.job
    def parent(ctx: Context) -> None:
        with suppress(ZeroDivisionError), transaction.atomic(using=shop.here):
            try:
                ctx.enqueue(NewJob(kind="confirm", args={"order": 1}))
            except EnqueueInAtomicError:
                seen.append("refused")
            else:
                seen.append(shop.stored())
            raise ZeroDivisionError
        with suppress(EnqueueInAtomicError), transaction.atomic(using=shop.here):
            ctx.enqueue(NewJob(kind="confirm", args={"order": 2}))
        ctx.enqueue(NewJob(kind="confirm", args={"order": 3}))

    with lines() as found, Sandbox(shop.app, url=shop.app.url) as box:
        parent.enqueue()
        box.run_one(box.only("parent"))
        assert len({job.correlation_id for job in box.jobs()}) == 1
        orders = [job.args["order"] for job in box.jobs("confirm")]
    assert seen == [SEEN[mode]] and len(found) == (mode == "warn")
    assert orders == {"warn": [1, 2, 3], "error": [3], "defer": [2, 3]}[mode]


def test_an_async_handlers_context_finds_the_block_of_its_thread(site: Callable[..., Site]) -> None:
    shop = site("defer")
    seen: list[Any] = []

    def leave(block: Any) -> None:
        block.__exit__(None, None, None)
        connections[shop.here].close()
        del connections[shop.here]  # of this thread, which later tests use

    @shop.app.job
    async def parent(ctx: Context) -> None:
        block = transaction.atomic(using=shop.here)
        await sync_to_async(block.__enter__)()
        try:
            await ctx.enqueue_async(NewJob(kind="confirm", args={"order": 1}))
            seen.append(await asyncio.to_thread(lambda: len(box.jobs("confirm"))))
        finally:
            await sync_to_async(leave)(block)
        await ctx.enqueue_async(NewJob(kind="confirm", args={"order": 2}))

    with Sandbox(shop.app, url=shop.app.url) as box:
        parent.enqueue()
        assert box.run_one(box.only("parent")).error is None
        orders = [job.args["order"] for job in box.jobs("confirm")]
    assert seen == [0] and orders == [1, 2]
