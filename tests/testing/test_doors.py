"""Every way to submit a job leads into the sandbox while it is active, and none to the configured database."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

import windlass
from tests.testing.shop import Shop
from windlass.errors import ConfigError, SandboxError
from windlass.features import open_store
from windlass.model import State
from windlass.testing import Sandbox

Make = Callable[..., Sandbox]


def by_enqueue(shop: Shop) -> None:
    shop.order.enqueue(n=1)


def by_options(shop: Shop) -> None:
    shop.order.options(key="k", delay=0).enqueue(n=1)


def by_enqueue_many(shop: Shop) -> None:
    shop.order.enqueue_many([{"n": 1}])


def by_enqueue_async(shop: Shop) -> None:
    asyncio.run(shop.order.enqueue_async(n=1))


def by_enqueue_many_async(shop: Shop) -> None:
    asyncio.run(shop.order.enqueue_many_async([shop.order.request(n=1)]))


def by_name(shop: Shop) -> None:
    shop.app.enqueue("order", n=1)


def by_batch(shop: Shop) -> None:
    shop.app.batch([shop.order.request(n=1)], then=shop.total.request())


def by_batch_async(shop: Shop) -> None:
    asyncio.run(shop.app.batch_async([shop.order.request(n=1)], then=shop.total.request()))


def by_chain(shop: Shop) -> None:
    shop.app.chain(shop.order.request(n=1), shop.total.request())


def by_chain_async(shop: Shop) -> None:
    asyncio.run(shop.app.chain_async(shop.order.request(n=1), shop.total.request()))


def by_store(shop: Shop) -> None:
    shop.app.store.enqueue([windlass.NewJob(kind="order", args={"n": 1})])


DOORS = [
    by_enqueue, by_options, by_enqueue_many, by_enqueue_async, by_enqueue_many_async, by_name, by_batch, by_batch_async, by_chain,
    by_chain_async, by_store,
]  # fmt: skip


@pytest.mark.parametrize("submit", DOORS)
def test_every_door_leads_into_the_sandbox(
    submit: Callable[[Shop], None], shop: Shop, real: Path, windlass_sandbox: Make
) -> None:
    box = windlass_sandbox(shop.app)
    submit(shop)
    box.assert_enqueued("order", n=1, count=1)
    assert not real.exists(), "the configured database is not even opened"
    box.drain()
    assert box.only("order").result == 2


def test_also_where_the_configured_database_was_open_before(shop: Shop) -> None:
    store = shop.app.store
    before = shop.order.enqueue(n=0)
    with Sandbox(shop.app) as box:
        shop.order.enqueue(n=1)
        box.assert_enqueued("order", count=1)
        assert shop.app.store is box.store and shop.app.url == box.url
    after = shop.order.enqueue(n=2)
    assert shop.app.store is store, "and afterwards everything is as it was"
    assert [job.id for job in store.jobs.list().jobs] == [after.id, before.id]


def test_a_built_background_leads_there_too(shop: Shop, real: Path, windlass_sandbox: Make) -> None:
    with windlass.build({"database.url": f"sqlite:///{real}"}, app=shop.app) as background:
        box = windlass_sandbox(shop.app)
        background.enqueue("order", n=1)
        box.assert_enqueued("order", n=1, count=1)
        assert not background.store.jobs.list().jobs


def test_sandboxes_of_one_app_end_in_any_order(shop: Shop) -> None:
    first, second = Sandbox(shop.app), Sandbox(shop.app)
    shop.order.enqueue(n=1)
    first.app.enqueue("order", n=2)
    second.assert_enqueued("order", n=1, count=1)
    first.assert_enqueued("order", n=2, count=1)
    first.close()
    shop.order.enqueue(n=3)
    second.assert_enqueued("order", count=2)
    second.close()
    second.close()


# ---------------------------------------------------------------------- transactions of the code under test


@pytest.fixture
def books(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """The application's own test database, which has no tables of Windlass."""
    with closing(sqlite3.connect(tmp_path / "books.db", isolation_level=None)) as connection:
        yield connection


def test_in_a_transaction_on_another_database_a_job_is_stored_at_once(
    shop: Shop, real: Path, books: sqlite3.Connection, windlass_sandbox: Make
) -> None:
    box = windlass_sandbox(shop.app)
    books.execute("BEGIN")
    handle = shop.order.enqueue_in(books, n=1)
    shop.order.enqueue_many_in(books, [{"n": 2}])
    shop.app.batch_in(books, [shop.order.request(n=3)], then=shop.total.request())
    books.execute("ROLLBACK")
    assert [job.args["n"] for job in box.jobs("order")] == [1, 2, 3] and handle.result() == 2
    assert not real.exists()
    with pytest.raises(ConfigError, match="open a transaction first"):
        shop.order.enqueue_in(books, n=4)


def test_async_and_in_sqlalchemy(shop: Shop, tmp_path: Path, windlass_sandbox: Make) -> None:
    aiosqlite = pytest.importorskip("aiosqlite")
    box = windlass_sandbox(shop.app)
    engine = create_engine(f"sqlite:///{tmp_path}/books.db")
    with Session(engine) as session, session.begin():
        shop.order.enqueue_in(session, n=1)
    engine.dispose()

    async def request() -> None:
        async with aiosqlite.connect(tmp_path / "books.db", isolation_level=None) as connection:
            await connection.execute("BEGIN")
            await shop.order.enqueue_in_async(connection, n=2)

    asyncio.run(request())
    assert [job.args["n"] for job in box.jobs("order")] == [1, 2]


def test_in_a_transaction_on_the_sandboxs_database_it_follows_the_transaction(
    shop: Shop, windlass_sandbox: Make
) -> None:
    box = windlass_sandbox(shop.app)
    with closing(sqlite3.connect(box.url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
        for end, n in (("ROLLBACK", 1), ("COMMIT", 2)):
            connection.execute("BEGIN IMMEDIATE")
            shop.order.enqueue_in(connection, n=n)
            connection.execute(end)
    box.drain()
    assert box.only("order").args == {"n": 2}


def test_in_a_transaction_on_postgresql(shop: Shop, postgres_dsn: str, windlass_sandbox: Make) -> None:
    """On a sandbox of SQLite it is stored at once; on that very database it follows the transaction."""
    import psycopg

    with psycopg.connect(postgres_dsn) as connection:
        windlass_sandbox(shop.app)
        at_once = shop.order.enqueue_in(connection, n=1)
        connection.rollback()
        assert at_once.state() is State.QUEUED
        box = windlass_sandbox(shop.app, url=postgres_dsn)
        shop.order.enqueue_in(connection, n=2)
        connection.rollback()
        shop.order.enqueue_in(connection, n=3)
        connection.commit()
    assert [job.args for job in box.jobs("order")] == [{"n": 3}]


def test_a_handler_ends_its_job_in_its_own_transaction_on_any_day(
    postgres_dsn: str, windlass_sandbox: Make
) -> None:
    """The history of PostgreSQL has a partition for each day; the clock of a sandbox starts on a day without one."""
    import psycopg

    app = windlass.App()

    @app.job
    def confirm(ctx: windlass.Context) -> str:
        with psycopg.connect(postgres_dsn) as connection:
            ctx.complete_in(connection, "confirmed")
        return "confirmed"

    box = windlass_sandbox(app, url=postgres_dsn, start=datetime(2031, 5, 5, tzinfo=UTC))
    for _ in range(2):
        job = confirm.enqueue()
        box.drain()
        assert job.job().result == "confirmed", job.job().error
        box.advance(timedelta(days=100))


def test_a_handlers_own_transaction_on_another_database_is_a_failed_attempt(
    real: Path, windlass_sandbox: Make
) -> None:
    """The attempt had no end, and nothing said why."""
    app = windlass.App(f"sqlite:///{real}")
    app.sync()

    @app.job(retry=windlass.retry.fixed(1))
    def confirm(ctx: windlass.Context) -> str:
        with closing(sqlite3.connect(real)) as connection:
            connection.execute("BEGIN")
            ctx.complete_in(connection, "confirmed")
            connection.commit()
        return "confirmed"

    box = windlass_sandbox(app)
    confirm.enqueue()
    box.drain()
    job = box.only("confirm")
    assert job.state is State.FAILED
    assert job.error is not None and job.error["code"] == "sandbox"
    assert "Sandbox(app, url=...)" in job.error["message"] and box.url in job.error["message"]
    app.close()


def test_inline_runs_jobs_of_transactions_at_the_end_of_the_block(
    shop: Shop, books: sqlite3.Connection, windlass_sandbox: Make
) -> None:
    box = windlass_sandbox(shop.app)
    with box.inline():
        books.execute("BEGIN")
        shop.order.enqueue_in(books, n=1)
        assert box.only("order").state is State.QUEUED, "its transaction is open"
        books.execute("COMMIT")
    assert box.only("order").result == 2


# ---------------------------------------------------------------------- other databases


def test_another_database_is_refused_by_its_name(shop: Shop, tmp_path: Path, windlass_sandbox: Make) -> None:
    other = Shop(f"sqlite:///{tmp_path}/other.db")
    box = windlass_sandbox(shop.app)
    with pytest.raises(SandboxError, match=r"another database: sqlite:///.*/other\.db"):
        other.order.enqueue(n=1)
    with pytest.raises(SandboxError, match=r"postgresql://me:\*\*\*@db/shop"):
        open_store("postgresql://me:hunter2@db/shop")
    with pytest.raises(SandboxError, match=r"other\.db"):
        windlass.build({"database.url": f"sqlite:///{tmp_path}/other.db"}, app=other.app)
    assert not (tmp_path / "other.db").exists()
    open_store(box.url).close()
    second = windlass_sandbox(other.app)
    other.order.enqueue(n=1)
    second.assert_enqueued("order", count=1)
    box.refute_enqueued("order")
    second.close()
    box.close()
    other.order.enqueue(n=2)
    other.app.close()
    assert (tmp_path / "other.db").exists(), "after the test it may be opened"


@pytest.mark.parametrize("submit", DOORS)
def test_another_database_that_was_open_before_is_refused_by_its_name(
    submit: Callable[[Shop], None], shop: Shop, tmp_path: Path
) -> None:
    other = Shop(f"sqlite:///{tmp_path}/other.db")
    with other.app:
        other.order.enqueue(n=0)
        store = other.app.store
        with Sandbox(shop.app) as box:
            with pytest.raises(SandboxError, match=r"would use another database: sqlite:///.*/other\.db"):
                submit(other)
            assert not box.jobs() and len(store.jobs.list().jobs) == 1
        submit(other)
        assert len(store.jobs.list().jobs) > 1, "after the test it is used again"


HANDLES: list[Callable[[windlass.JobHandle[int]], object]] = [
    lambda job: job.job(),
    lambda job: job.state(),
    lambda job: job.progress(),
    lambda job: job.wait(0),
    lambda job: job.result(0),
    lambda job: job.cancel(),
    lambda job: job.retry(),
    lambda job: asyncio.run(job.wait_async(0)),
    lambda job: asyncio.run(job.cancel_async()),
]


@pytest.mark.parametrize("use", HANDLES)
@pytest.mark.parametrize("is_many", [False, True])
def test_a_handle_that_is_older_than_the_sandbox_does_not_reach_its_database(
    use: Callable[[windlass.JobHandle[int]], object], is_many: bool, shop: Shop
) -> None:
    with shop.app:
        job = shop.order.enqueue_many([{"n": 1}])[0] if is_many else shop.order.enqueue(n=1)
        with Sandbox(shop.app), pytest.raises(SandboxError, match=r"another database: sqlite:///.*/real\.db"):
            use(job)
        assert job.state() is State.QUEUED, "after the test it may be used again"


def test_nor_does_a_batch_or_a_chain(shop: Shop) -> None:
    with shop.app:
        batch = shop.app.batch([shop.order.request(n=1)], then=shop.total.request())
        chain = shop.app.chain(shop.order.request(n=1), shop.total.request())
        for use in (batch.progress, batch.cancel, batch.result, chain.cancel, chain.result):
            with (
                Sandbox(shop.app),
                pytest.raises(SandboxError, match=r"another database: sqlite:///.*/real\.db"),
            ):
                use()
        assert batch.then.state() is chain.last.state() is State.WAITING


def test_a_sandbox_that_cannot_be_opened_leaves_nothing_behind(shop: Shop, real: Path) -> None:
    with pytest.raises(ConfigError):
        Sandbox(shop.app, url="mysql://db/shop")
    shop.order.enqueue(n=1)
    assert real.exists()


def test_neither_environment_nor_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, windlass_sandbox: Make
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_DATABASE_URL", f"sqlite:///{tmp_path}/environment.db")
    monkeypatch.setenv("WINDLASS_BACKGROUND_RETRY_ATTEMPTS", "7")
    (tmp_path / "windlass.toml").write_text('[database]\nurl = "sqlite:///file.db"\n[worker]\ngrace = 99\n')
    app = windlass.App(config={"background.timeout_ms": 1234})

    @app.job
    def fail() -> None:
        raise ValueError("no")

    box = windlass_sandbox(app)
    handle = fail.enqueue()
    assert handle.job().max_attempts == 3, "as it is without any setting"
    assert (app.settings.grace, app.config["background.timeout_ms"]) == (30, 1234), "code counts"
    box.drain(advance=True)
    assert handle.state() is State.FAILED
    assert sorted(path.name for path in tmp_path.iterdir()) == ["windlass.toml"]
